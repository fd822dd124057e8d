"""Which of the step's inputs are targets: read by train and eval, and no use to predict."""

from __future__ import annotations

from ..autodiff.objective import SAMPLE_WEIGHT
from ..ir import Graph
from ..recipe.losses.kinds import CausalLM, CrossEntropy
from .planned import Planned


def target_kinds(planned: Planned) -> dict[str, str]:
    """Input name -> `not_target`, `target` or `sample_weight`, as pock.h's pock_target."""
    read = _read(planned.programs["predict"].graph)
    read |= {one.indices for one in planned.streamed if one.rows in read}
    return {value.name: "not_target" if value.name in read else _kind(planned, value.name) for value in planned.inputs}


def has_perplexity(planned: Planned) -> bool:
    """Whether exp(loss) is a perplexity: the loss is the plain cross-entropy of tokens, labels [batch, time]."""
    if len(planned.recipe.loss) != 1:
        return False
    (loss,) = planned.recipe.loss
    if not isinstance(loss, CausalLM | CrossEntropy) or loss.label_smoothing or loss.class_weights or loss.weight != 1:
        return False
    ranks = {value.name: value.type.rank for value in planned.inputs}
    return isinstance(loss, CausalLM) or (loss.axis == -1 and ranks.get(loss.target or "") == 2)


def _kind(planned: Planned, name: str) -> str:
    partial = planned.recipe.last_batch == "partial"
    return "sample_weight" if partial and name == SAMPLE_WEIGHT else "target"


def _read(graph: Graph) -> set[str]:
    """Names of the inputs that a graph's nodes or outputs use."""
    used = {value for node in graph.nodes for value in node.inputs} | set(graph.outputs.values())
    return {value.name for value in graph.inputs if value in used}
