"""The stages up to planned programs: everything that needs no C compiler. `pock check` stops here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..autodiff import eval_graph, predict_graph, train_graph
from ..codegen.backend import Backend, Lowered, Program
from ..codegen.c import CBackend
from ..errors import UnsupportedOperatorError
from ..ir import Graph, Node, Value
from ..ops import get
from ..passes import ALGEBRA, SHAPING, optimise, reorder, simplify
from ..recipe import Recipe, Scheme, resolve
from ..targets import Target
from .memory import Lower, Spaces, place, with_copies

Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total)."""

STAGES = ("resolve", "optimise", "plan", "compile", "link", "pack")


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
    """Three planned programs over shared blocks of memory."""

    name: str
    model: Graph
    recipe: Recipe
    scheme: Scheme
    target: Target
    threads: int
    batch: int
    programs: Mapping[str, Program]
    spaces: Spaces
    states: Mapping[str, float]
    counts: Counts
    inputs: tuple[Value, ...]
    limits: Mapping[str, int] = field(default_factory=dict)

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
) -> Planned:
    """Resolve the recipe and plan the programs train, eval and predict for one target.

    `dump`: a folder for the graph after each pass. Raises RecipeError or UnsupportedOperatorError."""
    progress("resolve", 0, 1)
    scheme = resolve(recipe, model)
    full = Recipe(recipe.loss, recipe.optimizer, "full", recipe.batch, recipe.batch_norm)
    everything = resolve(full, model)
    model = simplify(model)
    threads = threads or target.cores
    lower = _lowerer(CBackend(), target, threads)
    train = train_graph(model, recipe, scheme)
    graphs = {"train": train, "eval": eval_graph(model, recipe), "predict": predict_graph(model)}
    frozen = _frozen(model, train)
    spaces, programs = Spaces(), dict[str, Program]()
    flops: Mapping[str, int] = {}
    nodes: Mapping[str, int] = {}
    for index, (kind, graph) in enumerate(graphs.items()):
        progress("optimise", index, len(graphs))
        reduced = optimise(graph, frozen, ALGEBRA, dump / kind / "algebra" if dump else None)
        if kind == "train":
            flops, nodes = _flops(reduced), _phase_counts(reduced)
        progress("plan", index, len(graphs))
        programs[kind] = _program(kind, reduced, frozen, lower, spaces, dump)
    backward = nodes["backward"] + nodes["update"]
    dense = backward if scheme == everything else _dense_backward_nodes(model, recipe, everything)
    counts = Counts(nodes["forward"], backward, dense, flops)
    inputs = graphs["eval"].inputs
    states = {value.name: fill for value, fill in train.states.items()}
    batch = inputs[0].type.shape[0] if inputs and inputs[0].type.rank else 1
    return Planned(
        name or model.name, model, recipe, scheme, target, threads, batch, programs, spaces, states, counts, inputs,
        _limits(graphs["eval"]),
    )  # fmt: skip


@dataclass(frozen=True)
class Inference:
    """One planned program, `predict`, and the blocks of memory it runs over."""

    program: Program
    spaces: Spaces


def plan_inference(model: Graph, target: Target, threads: int | None = None) -> Inference:
    """Plan only what computes the model's outputs, without a recipe. Raises UnsupportedOperatorError."""
    frozen = {value.name for value in model.params}
    spaces = Spaces()
    reduced = optimise(predict_graph(simplify(model)), frozen, ALGEBRA)
    program = _program("predict", reduced, frozen, _lowerer(CBackend(), target, threads or target.cores), spaces)
    return Inference(program, spaces)


def _program(
    kind: str, reduced: Graph, frozen: set[str], lower: Lower, spaces: Spaces, dump: Path | None = None
) -> Program:
    """The regions, order and plan of a graph after the algebra."""
    shaped = optimise(reduced, frozen, SHAPING, dump / kind / "shaping" if dump else None)
    return place(kind, reorder(with_copies(shaped, lower)), lower, spaces)


def _lowerer(backend: Backend, target: Target, threads: int) -> Lower:
    """Lowering with memory: each node is lowered once. Raises UnsupportedOperatorError."""
    known: dict[Node, Lowered] = {}

    def lower(node: Node) -> Lowered:
        if node not in known:
            reason = backend.unsupported(node)
            if reason:
                raise UnsupportedOperatorError(f"the {node.phase} part needs {node.op} for '{node.origin}': {reason}")
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


def _dense_backward_nodes(model: Graph, recipe: Recipe, everything: Scheme) -> int:
    """Backward and update nodes if all that the loss depends on were trained, after the same algebra."""
    graph = train_graph(model, recipe, everything)
    counts = _phase_counts(optimise(graph, _frozen(model, graph), ALGEBRA))
    return counts["backward"] + counts["update"]


def _limits(graph: Graph) -> dict[str, int]:
    """Input name -> the bound below which its integers must stay: table rows for indices, classes for labels."""
    limits: dict[str, int] = {}
    base = {value: value for value in graph.inputs}
    for node in graph.nodes:
        if node.inputs and node.inputs[0] in base and (node.op in ("reshape", "slice", "cast")):
            base[node.output] = base[node.inputs[0]]
        for index, bound in _bounds(node):
            if node.inputs[index] in base:
                name = base[node.inputs[index]].name
                limits[name] = min(bound, limits.get(name, bound))
    return limits


def _bounds(node: Node) -> list[tuple[int, int]]:
    """(input index, exclusive bound) of a node's integer inputs."""
    if node.op == "gather":
        return [(1, node.inputs[0].type.shape[int(node.attrs["axis"])])]
    if node.op == "cross_entropy":
        return [(1, node.inputs[0].type.shape[-1])]
    return []


__all__ = ["STAGES", "Counts", "Inference", "Planned", "Progress", "plan_inference", "plan_programs", "quiet"]
