"""The stages up to planned programs: everything that needs no C compiler. `pock check` stops here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ..autodiff import (
    Quantised,
    accumulate_graph,
    averaged,
    eval_graph,
    predict_graph,
    train_graph,
    with_adapters,
    with_quantised,
    without_dropout,
)
from ..codegen.backend import Backend
from ..codegen.c import CBackend
from ..errors import UnsupportedOperatorError
from ..ir import Graph, Node, Value
from ..ops import get
from ..passes import Context, Lookup, lookups_of, optimise
from ..plan.budget import NONE, Recomputed, fit, peak_bytes
from ..plan.clipping import waiting_bytes
from ..plan.lives import Lower
from ..plan.memory import Spaces, place
from ..plan.packed_weights import place_packed
from ..plan.pipeline import PIPELINE, Pipeline, Planning
from ..plan.program import Lowered, Packing, Program
from ..recipe import Recipe, Scheme, batch_of, resolve
from ..targets import Target
from .ranges import IntegerRange, integer_ranges

Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total)."""

STAGES = ("resolve", "optimise", "plan", "tune", "compile", "link", "pack")


def quiet(stage: str, done: int, total: int) -> None:
    """The progress callback that shows nothing."""


@dataclass(frozen=True)
class Counts:
    """Primitive nodes and floating-point operations of a training step, before fusion."""

    forward: int
    backward: int
    backward_dense: int
    flops: Mapping[str, int]


@dataclass(frozen=True)
class Planned:
    """The planned programs over shared blocks of memory.

    imported         the model as it came
    model            what is trained: the imported one with adapters, its frozen weights quantised
    clip_norm_bytes  of the arena, with `clip: {norm: …}`: what gradients take that wait for the norm of all of them
    recomputed       what it takes to keep to the memory allowed: forward nodes that run twice, products in strips
    quantised        how the quantised weights are stored
    packed           the frozen weights that lie in memory as panels
    lookups          the frozen tables that stay in the weights file"""

    name: str
    imported: Graph
    model: Graph
    recipe: Recipe
    scheme: Scheme
    target: Target
    threads: int
    batch: int
    programs: Mapping[str, Program]
    spaces: Spaces
    counts: Counts
    inputs: tuple[Value, ...]
    ranges: Mapping[str, IntegerRange] = field(default_factory=dict)
    clip_norm_bytes: int = 0
    recomputed: Recomputed = NONE
    quantised: tuple[Quantised, ...] = ()
    packed: Mapping[str, Packing] = field(default_factory=dict)
    lookups: tuple[Lookup, ...] = ()

    @property
    def arena_bytes(self) -> int:
        return max(program.plan.arena_bytes for program in self.programs.values())

    @property
    def lower_bound_bytes(self) -> int:
        return max(program.plan.lower_bound_bytes for program in self.programs.values())


def plan_programs(
    model: Graph,
    recipe: Recipe,
    target: Target,
    threads: int | None = None,
    name: str | None = None,
    progress: Progress = quiet,
    dump: Path | None = None,
    dense: int | None = None,
    only_training: bool = False,
    memory: int | None = None,
    pipeline: Pipeline = PIPELINE,
    backend: Backend | None = None,
) -> Planned:
    """Resolve the recipe and plan its programs (train, eval, predict, accumulate) for one target.

    dump           a folder for the graph after each pass
    dense          backward nodes of training everything, where that is known
    only_training  leave eval and predict out: for questions about the training step
    memory         bytes the whole process may take: what does not fit keeps fewer bytes for the backward part, and
                   computes forward nodes twice where that is not enough
    pipeline       the passes
    backend        what lowers nodes; default: the C backend with the model's schedules

    Raises RecipeError, UnsupportedOperatorError or MemoryBudgetError."""
    recipe = recipe.bound(model)
    if memory is not None:
        plain = plan_programs(
            model, recipe, target, threads, name, progress, dump, dense, only_training, None, pipeline, backend
        )
        if peak_bytes(plain.programs, plain.spaces) <= memory:
            return plain
        dense = plain.counts.backward_dense
    progress("resolve", 0, 1)
    imported = model
    if recipe.lora is not None:
        model = with_adapters(model, recipe.lora)
    scheme = resolve(recipe, model)
    everything = resolve(recipe.with_(update="full"), model)
    full = model = _prepared(model if recipe.dropout else without_dropout(model), pipeline, dump)
    quantised: tuple[Quantised, ...] = ()
    if recipe.frozen is not None:
        model, quantised = with_quantised(model, recipe.frozen, scheme)
    threads = threads or target.cores
    backend = backend or CBackend()
    lower = _lowerer(backend, target, threads)
    train = train_graph(model, recipe, scheme)
    frozen = _frozen(model, train)
    graphs = {"train": train}
    if not only_training:
        graphs |= _graphs_beside(model, recipe, scheme, frozen)
    asked = graphs.get("eval", train)
    lookups = lookups_of(graphs, frozen)
    planning = Planning(frozen=frozen, claims=backend.claims, lookups=lookups, lower=lower)
    shaping = pipeline.shaping if memory is None else pipeline.sparing
    spaces, shaped = Spaces(), dict[str, Graph]()
    flops: Mapping[str, int] = {}
    nodes: Mapping[str, int] = {}
    for index, (kind, graph) in enumerate(graphs.items()):
        progress("optimise", index, len(graphs))
        folder = dump / kind if dump else None
        reduced = optimise(graph, pipeline.algebra, planning, folder / "algebra" if folder else None)
        if kind == "train":
            flops, nodes = _flops(reduced), _phase_counts(reduced)
        progress("plan", index, len(graphs))
        regions = optimise(reduced, shaping, planning, folder / "shaping" if folder else None)
        shaped[kind] = optimise(regions, pipeline.ordering, planning, folder / "ordering" if folder else None)
    recomputed = NONE
    if memory is not None:
        whole = {kind: place(kind, graph, lower, spaces) for kind, graph in shaped.items()}
        scratch = partial(backend.scratch, target=target, threads=threads)
        fitting, recomputed = fit(whole, spaces, memory, lower, scratch, target, threads)
        shaped = {kind: program.graph for kind, program in fitting.items()}
    packing = partial(backend.packing, target=target, threads=threads)
    programs, packed = place_packed(shaped, planning, packing, spaces, dump)
    clip = recipe.optimizer.clip
    clip_norm_bytes = waiting_bytes(programs["train"], scheme.trained()) if clip and clip.norm is not None else 0
    backward = nodes["backward"] + nodes["update"]
    if scheme == everything:
        dense = backward
    elif dense is None:
        dense = _dense_backward_nodes(full, recipe, everything, pipeline, backend) or backward
    counts = Counts(nodes["forward"], backward, dense, flops)
    inputs = asked.inputs
    return Planned(
        name or model.name, imported, model, recipe, scheme, target, threads, batch_of(recipe, imported), programs,
        spaces, counts, inputs, integer_ranges(asked), clip_norm_bytes, recomputed, quantised, packed, lookups,
    )  # fmt: skip


def _prepared(model: Graph, pipeline: Pipeline, dump: Path | None = None) -> Graph:
    """What holds before the gradient is built: attention is found, and only rows that are read are computed."""
    return optimise(model, pipeline.preparing, Context(), dump / "preparing" if dump else None)


def _graphs_beside(model: Graph, recipe: Recipe, scheme: Scheme, frozen: set[str]) -> dict[str, Graph]:
    """The programs beside `train`."""
    learned = [value for value in model.params if value.name not in frozen]
    read = averaged(model, learned) if recipe.ema is not None else model
    graphs = {"eval": eval_graph(read, recipe), "predict": predict_graph(read, recipe)}
    if recipe.accumulate > 1:
        graphs["accumulate"] = accumulate_graph(model, recipe, scheme)
    return graphs


@dataclass(frozen=True)
class Inference:
    """One planned program, `predict`, and the blocks of memory it runs over."""

    program: Program
    spaces: Spaces


def plan_inference(model: Graph, target: Target, threads: int | None = None) -> Inference:
    """Plan only what computes the model's outputs, without a recipe. Raises UnsupportedOperatorError."""
    frozen = {value.name for value in model.params}
    spaces = Spaces()
    backend = CBackend()
    planning = Planning(frozen=frozen, claims=backend.claims, lower=_lowerer(backend, target, threads or target.cores))
    graph = _prepared(model, PIPELINE)
    for passes in (PIPELINE.algebra, PIPELINE.shaping, PIPELINE.ordering):
        graph = optimise(graph, passes, planning)
    return Inference(place("predict", graph, planning.lower, spaces), spaces)


def _lowerer(backend: Backend, target: Target, threads: int) -> Lower:
    """Lowering with memory: each node is lowered once. Raises UnsupportedOperatorError."""
    known: dict[Node, Lowered] = {}

    def lower(node: Node) -> Lowered:
        if node not in known:
            reason = backend.unsupported(node)
            if reason:
                raise UnsupportedOperatorError(
                    f"the {node.phase} part needs {node.op} for '{node.origin}': {reason}",
                    node.op,
                    node.origin,
                    ", ".join(str(value.type) for value in node.inputs),
                    "replace it in the model, or freeze what lies before it if only its gradient is needed",
                )
            known[node] = backend.lower(node, target, threads)
        return known[node]

    return lower


def _frozen(model: Graph, train: Graph) -> set[str]:
    """Parameters that no update changes."""
    return {value.name for value in model.params} - {value.name for value in train.updates}


def _flops(graph: Graph) -> dict[str, int]:
    totals = {"forward": 0, "backward": 0, "update": 0}
    for node in graph.nodes:
        totals[node.phase] += get(node.op).cost(
            [v.type for v in node.inputs], [v.type for v in node.outputs], node.attrs
        )
    return totals


def _phase_counts(graph: Graph) -> dict[str, int]:
    counts = {"forward": 0, "backward": 0, "update": 0}
    for node in graph.nodes:
        counts[node.phase] += node.op != "reshape"
    return counts


def _dense_backward_nodes(
    model: Graph, recipe: Recipe, everything: Scheme, pipeline: Pipeline, backend: Backend
) -> int | None:
    """Backward and update nodes if all that the loss depends on were trained, after the same algebra; None where some
    of it has no gradient."""
    try:
        graph = train_graph(model, recipe, everything)
    except UnsupportedOperatorError:
        return None
    context = Context(frozen=_frozen(model, graph), claims=backend.claims)
    counts = _phase_counts(optimise(graph, pipeline.algebra, context))
    return counts["backward"] + counts["update"]


__all__ = ["STAGES", "Counts", "Inference", "Planned", "Progress", "plan_inference", "plan_programs", "quiet"]
