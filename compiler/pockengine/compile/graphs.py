"""The second stage: the graph of each program, the gradient built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..autodiff import Untrained, accumulate_graph, averaged, eval_graph, norms_graph, predict_graph, train_graph
from ..generation import Decoder, decoder_of
from ..ir import Graph
from ..passes import Context, StreamedEmbedding, embeddings_to_stream
from ..passes.offload import offloaded_of
from ..recipe.losses.kinds import KL
from .request import Scope
from .resolved import Resolved

NORMS = "norms"
"""The program that gives a batch's statistics of batch norms, from which the running ones are estimated."""
GENERATE = "generate"
"""The program that reads one token, of a language model."""


@dataclass(frozen=True, eq=False)
class Graphs:
    """The programs before any pass.

    programs  name of a program (`train`, `eval`, `predict`, `accumulate`, `norms`, `generate`) -> its graph
    frozen    the parameters that the device never changes
    streamed  the frozen tables that will stay in the weights file
    offloaded  names of the parameters and states that may lie in the host's memory
    decoder   where the recipe asks for it: what generates tokens"""

    resolved: Resolved
    programs: Mapping[str, Graph]
    frozen: frozenset[str]
    streamed: tuple[StreamedEmbedding, ...]
    offloaded: frozenset[str]
    decoder: Decoder | None = None

    @property
    def asked(self) -> Graph:
        """The program that reads all that a user gives."""
        return self.programs.get("eval", self.programs["train"])

    @property
    def context(self) -> Context:
        """What passes ask beside the graphs where no target is known."""
        claims = self.resolved.request.backend.claims
        return Context(frozen=self.frozen, claims=claims, streamed=self.streamed)


def build_graphs(resolved: Resolved) -> Graphs:
    """Build the gradient, the updates and the programs beside `train`. Raises RecipeError or
    UnsupportedOperatorError."""
    train = train_graph(resolved.model, resolved.recipe, resolved.scheme)
    frozen = unchanged(resolved.model, train)
    graphs = {"train": train}
    scope, recipe = resolved.request.scope, resolved.recipe
    if scope is Scope.ALL:
        graphs |= _other_programs(resolved, frozen)
    if recipe.accumulate > 1 and scope is not Scope.UPDATE:
        graphs["accumulate"] = accumulate_graph(resolved.model, recipe, resolved.scheme)
    if resolved.recipe.norm_batches is not None:
        norms = norms_graph(resolved.model)
        frozen = frozen.difference(norms.outputs)
        graphs |= {NORMS: norms} if resolved.request.scope is Scope.ALL else {}
    decoder = None
    if resolved.recipe.generate and resolved.request.scope is Scope.ALL:
        predict = graphs["predict"]
        decoder = resolved.request.common(("decoder", predict), lambda: decoder_of(predict))
        graphs[GENERATE] = decoder.graph
    streamed = embeddings_to_stream(graphs, frozen)
    held = frozen.difference(one.table for one in streamed)
    return Graphs(resolved, graphs, frozen, streamed, offloaded_of(graphs, held, recipe.offload.what), decoder)


def unchanged(model: Graph, train: Graph) -> frozenset[str]:
    """Parameters that no update of a training step changes."""
    return frozenset({value.name for value in model.params} - {value.name for value in train.updates})


def _other_programs(resolved: Resolved, frozen: frozenset[str]) -> dict[str, Graph]:
    """The programs beside `train`."""
    model, recipe = resolved.model, resolved.recipe
    learned = [value for value in model.params if value.name not in frozen]
    read = averaged(model, learned) if recipe.ema is not None else model
    untrained = Untrained.of(model, recipe, resolved.scheme)
    asked = recipe.but_for("update", "optimizer")
    teaches_itself = any(isinstance(loss, KL) and loss.is_own_teacher(read.outputs) for loss in recipe.loss)
    taught = untrained.changes if teaches_itself else None
    common = resolved.request.common
    return {
        "eval": common(("eval", read, asked, taught), lambda: eval_graph(read, recipe, untrained)),
        "predict": common(("predict", read, asked), lambda: predict_graph(read, recipe)),
    }
