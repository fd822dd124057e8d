"""Who is to blame where a compiled step trains otherwise than the imported model says: a kernel, a pass, or neither.

Three sides are compared: the framework (by `locate`), the reference (`reference`), and the compiled program
(`watched`). Each node is judged by the reference on the very inputs that its kernel had, so rounding does not add up
and the first node that is wrong is the one that is named.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..autodiff import train_graph, with_adapters, without_dropout
from ..ir import Array, Graph, Node, Value
from ..plan.program import Program, Step
from ..recipe import Recipe, Scheme
from .culprit import Culprit, Wrong
from .judge import AS_CLOSE
from .reference import outputs_of
from .trail import Trail
from .watched import Watched, watch

_APART = 1e-3
"""How far one node's result may be off, in Euclidean norm: a rounded one is off by less."""
_MOST_OTHER = 1e-2
"""Share of integers and truth values that rounding may turn over."""


@dataclass(frozen=True)
class Question:
    """What is asked: a recipe's step on one micro-batch.

    model  as it was imported
    dump   a folder that receives the graph after each pass, and the source of the kernel that is named"""

    model: Graph
    recipe: Recipe
    scheme: Scheme
    feeds: Mapping[str, Array]
    threads: int | None = None
    dump: Path | None = None


def blame(question: Question) -> Culprit | None:
    """The first value that is wrong; None where kernels and passes are right. Raises PockError where the step cannot
    be compiled."""
    with _folder(question.dump) as folder:
        return _blame(question, folder)


def _folder(dump: Path | None) -> contextlib.AbstractContextManager[Path | str]:
    return contextlib.nullcontext(dump) if dump else tempfile.TemporaryDirectory(prefix="pock-verify-")


def _blame(question: Question, folder: str | Path) -> Culprit | None:
    recipe, graph = question.recipe, question.model
    watched = watch(graph, recipe, question.feeds, question.threads, Path(folder))
    model = without_dropout(with_adapters(graph, recipe.lora) if recipe.lora else graph)

    def trained(prepared: Graph) -> Graph:
        return train_graph(prepared, recipe, question.scheme)

    trail = Trail.read(Path(folder), trained(model), trained)
    feeds = _with_rows(watched, question.feeds)
    return _wrong_kernel(watched, trail, feeds, question.dump) or _wrong_pass(watched, trail, feeds, question.dump)


def _with_rows(watched: Watched, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
    """With the rows of tables that stay in the weights file, which the runtime looks up before a step."""
    data = watched.planned.model.data
    return {**feeds, **{one.rows: data[one.table][feeds[one.indices]] for one in watched.planned.streamed}}


def _wrong_kernel(watched: Watched, trail: Trail, feeds: Mapping[str, Array], dump: Path | None) -> Culprit | None:
    program, graph = watched.program, watched.program.graph
    steps = {step.node: step for step in program.steps}
    known = _sources(graph, watched.planned.model.data, feeds)
    for node in graph.nodes:
        inputs = [known[value] for value in node.inputs]
        exact = outputs_of(node, inputs, double=True)
        for index, value in enumerate(node.outputs):
            found = watched.values.get(value)
            if found is None:
                known[value] = exact[index].astype(value.type.dtype.numpy)
                continue
            known[value] = found
            error = _error(found, exact[index])
            if not error <= _APART and not _is_rounding(node, inputs, index, found, exact[index]):
                step = steps[node]
                return Culprit(
                    value.name, node.origin, node.phase, _operator(node), trail.of(value.name), _symbols(step),
                    _source(step, dump), error, Wrong.KERNEL,
                )  # fmt: skip
    return None


def _wrong_pass(watched: Watched, trail: Trail, feeds: Mapping[str, Array], dump: Path | None) -> Culprit | None:
    parting = trail.parting(feeds)
    if parting is None:
        return None
    passes = trail.of(parting.value)
    if parting.stage.name in passes:
        passes = passes[: passes.index(parting.stage.name)]
    step = _step_of(watched.program, parting.value, parting.node)
    return Culprit(
        parting.value, parting.node.origin, parting.node.phase, _operator(parting.node),
        (*passes, parting.stage.name), _symbols(step), _source(step, dump), None, Wrong.PASS,
    )  # fmt: skip


def _sources(graph: Graph, data: Mapping[str, Array], feeds: Mapping[str, Array]) -> dict[Value, Array]:
    """What is there before the first node."""
    known: dict[Value, Array] = dict(graph.consts)
    known |= {value: np.asarray(feeds[value.name], value.type.dtype.numpy) for value in graph.inputs}
    known |= {value: data[value.name] for value in graph.params}
    for value, fill in graph.states.items():
        full = known[fill] if isinstance(fill, Value) else np.full(value.type.shape, fill, value.type.dtype.numpy)
        known[value] = full
    return known


def _error(found: Array, exact: Array) -> float:
    """The distance relative to the size; of integers and truth values, the share that is another. 0 where both have no
    number or the same infinity."""
    exact = np.asarray(exact).reshape(found.shape)
    if found.dtype.kind != "f":
        return max(0.0, float(np.mean(found != exact)) - _MOST_OTHER) / (1 - _MOST_OTHER) if found.size else 0.0
    with np.errstate(invalid="ignore"):
        apart = found.astype(np.float64) - exact
    apart = np.where((found == exact) | (np.isnan(found) & np.isnan(exact)), 0.0, apart)
    size, off = _norm(exact[np.isfinite(exact)]), _norm(apart)
    return off / size if size else (0.0 if off == 0.0 else float("inf"))


def _is_rounding(node: Node, inputs: list[Array], index: int, found: Array, exact: Array) -> bool:
    """Whether the reference in float32 is about as far off: terms cancel."""
    single = np.asarray(outputs_of(node, inputs, double=False)[index]).reshape(found.shape)
    if found.dtype.kind != "f":
        return bool(np.array_equal(found, single))
    return _error(found, exact) <= AS_CLOSE**2 * _error(single, exact)


def _norm(x: Array) -> float:
    return float(np.linalg.norm(x.astype(np.float64).reshape(-1)))


def _operator(node: Node) -> str:
    """`relu`; of a region, its operators in order, each once."""
    ops = [inner.op for inner in node.body.nodes] if node.body else [node.op]
    return " + ".join(dict.fromkeys(ops)) or node.op


def _step_of(program: Program, value: str, node: Node) -> Step | None:
    """The step that computes a value: as its result, inside its region, or another of the same node of the user's."""
    for step in program.steps:
        inner = [made for one in step.node.body.nodes for made in one.outputs] if step.node.body else []
        if any(made.name == value for made in (*step.node.outputs, *inner)):
            return step
    return next((s for s in program.steps if s.node.origin == node.origin and s.node.phase == node.phase), None)


def _symbols(step: Step | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(call.kernel.symbol for call in step.lowered.calls)) if step else ()


def _source(step: Step | None, dump: Path | None) -> str | None:
    """Write the source of a step's kernels beside the graphs."""
    if step is None or dump is None or not step.lowered.calls:
        return None
    kernels = {call.kernel.symbol: call.kernel.source for call in step.lowered.calls}
    path = dump / "kernels" / f"{next(iter(kernels))}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(kernels.values()))
    return str(path)
