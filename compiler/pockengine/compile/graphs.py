"""The second stage: the graph of each program, the gradient built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..autodiff import Untrained, accumulate_graph, averaged, eval_graph, norms_graph, predict_graph, train_graph
from ..ir import Graph
from ..passes import StreamedEmbedding, embeddings_to_stream
from .request import Scope
from .resolved import Resolved

NORMS = "norms"
"""The program that gives a batch's statistics of batch norms, from which the running ones are estimated."""


@dataclass(frozen=True, eq=False)
class Graphs:
    """The programs before any pass.

    programs  name of a program (`train`, `eval`, `predict`, `accumulate`, `norms`) -> its graph
    frozen    the parameters that the device never changes
    streamed  the frozen tables that will stay in the weights file"""

    resolved: Resolved
    programs: Mapping[str, Graph]
    frozen: frozenset[str]
    streamed: tuple[StreamedEmbedding, ...]

    @property
    def asked(self) -> Graph:
        """The program that reads all that a user gives."""
        return self.programs.get("eval", self.programs["train"])


def build_graphs(resolved: Resolved) -> Graphs:
    """Build the gradient, the updates and the programs beside `train`. Raises RecipeError or
    UnsupportedOperatorError."""
    train = train_graph(resolved.model, resolved.recipe, resolved.scheme)
    frozen = unchanged(resolved.model, train)
    graphs = {"train": train}
    if resolved.request.scope is Scope.ALL:
        graphs |= _other_programs(resolved, frozen)
    if resolved.recipe.norm_batches is not None:
        norms = norms_graph(resolved.model)
        frozen = frozen.difference(norms.outputs)
        graphs |= {NORMS: norms} if resolved.request.scope is Scope.ALL else {}
    return Graphs(resolved, graphs, frozen, embeddings_to_stream(graphs, frozen))


def unchanged(model: Graph, train: Graph) -> frozenset[str]:
    """Parameters that no update of a training step changes."""
    return frozenset({value.name for value in model.params} - {value.name for value in train.updates})


def _other_programs(resolved: Resolved, frozen: frozenset[str]) -> dict[str, Graph]:
    """The programs beside `train`."""
    model, recipe = resolved.model, resolved.recipe
    learned = [value for value in model.params if value.name not in frozen]
    read = averaged(model, learned) if recipe.ema is not None else model
    untrained = Untrained.of(model, recipe, resolved.scheme)
    graphs = {"eval": eval_graph(read, recipe, untrained), "predict": predict_graph(read, recipe)}
    if recipe.accumulate > 1:
        graphs["accumulate"] = accumulate_graph(model, recipe, resolved.scheme)
    return graphs
