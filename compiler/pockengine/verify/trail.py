"""Which passes made a node what it is, read from the graphs that `--dump` writes after each of them.

Nothing is recorded while a step is compiled: only who asks for a trail has the graphs written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..ir import Array, Graph, Node, parse
from .reference import values_of

_PREPARING = "preparing"
_LISTS = ("algebra", "shaping", "sparing", "ordering", "recomputing", "packing")
"""Folders of the pipeline's lists, in the order in which they run on a training step."""
_APART = 1e-3
"""How far two graphs of one step may be apart in float64, of a tensor's Euclidean norm: constants that a pass folds are
rounded to float32."""
_NOISE = 1e-5
"""Changes below this share of the largest are what is left of terms that cancel."""


@dataclass(frozen=True)
class Stage:
    """A training step after one pass."""

    name: str
    graph: Graph


@dataclass(frozen=True)
class Parting:
    """The first pass after which a step computes something else: the first value that differs, and its node."""

    stage: Stage
    value: str
    node: Node


@dataclass(frozen=True)
class Trail:
    """A training step from the imported model's gradient to what is lowered."""

    stages: tuple[Stage, ...]

    @classmethod
    def read(cls, folder: Path, start: Graph, trained: Callable[[Graph], Graph]) -> Trail:
        """From the folder that a compilation dumped its graphs into.

        start    the step as it is before the first pass
        trained  makes the step of a model: passes that prepare the model come before its gradient"""
        prepared = [Stage(name, trained(graph.with_(data=start.data))) for name, graph in _dumped(folder / _PREPARING)]
        later = [
            Stage(name, graph.with_(data=start.data))
            for one in _LISTS
            for name, graph in _dumped(folder / "train" / one)
        ]
        return cls((Stage("", start), *prepared, *later))

    def of(self, value: str) -> tuple[str, ...]:
        """The passes that made a value's node or changed it, in order; none where it is as the gradient has it."""
        found, last = [], _written(self.stages[0].graph).get(value)
        for stage in self.stages[1:]:
            now = _written(stage.graph).get(value)
            if now is not None and now != last:
                found.append(stage.name)
            last = now
        return tuple(found)

    def parting(self, feeds: Mapping[str, Array]) -> Parting | None:
        """Where a pass changed what the step computes; None where none did."""
        before, known = self.stages[0].graph, _by_name(self.stages[0].graph, feeds)
        for stage in self.stages[1:]:
            now = _by_name(stage.graph, feeds)
            if not _alike(_results(before, known), _results(stage.graph, now)):
                return _first_parting(stage, known, now)
            before, known = stage.graph, now
        return None


def _dumped(folder: Path) -> Iterator[tuple[str, Graph]]:
    for path in sorted(folder.glob("*.txt")):
        yield path.stem.partition("_")[2], parse(path.read_text())


def _written(graph: Graph) -> dict[str, object]:
    """By value: the node that makes it, as far as a reader would call it the same. What a region computes inside it is
    told apart by the region's operators."""
    found: dict[str, object] = {}
    for node in graph.nodes:
        inside = tuple(inner.op for inner in node.body.nodes) if node.body else ()
        key = (node.op, tuple(value.name for value in node.inputs), str(dict(node.attrs)), inside)
        for value in node.outputs:
            found[value.name] = (value.type, key)
    return found


def _by_name(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, Array]:
    return {value.name: x for value, x in values_of(graph, feeds).items()}


def _results(graph: Graph, values: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs, and by how much each parameter and state changes."""
    outputs = {name: values[value.name] for name, value in graph.outputs.items()}
    changes = {
        f"change of {target.name}": values[new.name].astype(np.float64).reshape(target.type.shape) - values[target.name]
        for target, new in graph.updates.items()
    }
    return outputs | changes


def _alike(before: Mapping[str, Array], after: Mapping[str, Array]) -> bool:
    largest = max((_rms(x) for name, x in before.items() if name.startswith("change of ")), default=0.0)
    return before.keys() == after.keys() and all(
        _rms(before[name] - after[name]) <= _APART * _rms(before[name]) + _NOISE * largest for name in before
    )


def _first_parting(stage: Stage, before: Mapping[str, Array], now: Mapping[str, Array]) -> Parting:
    """The first node of the graph whose value had the same name and shape before, and other contents; without one, the
    last node, in which all that is new ends."""
    nodes: Sequence[Node] = stage.graph.nodes
    for node in nodes:
        for value in node.outputs:
            old, new = before.get(value.name), now[value.name]
            if old is not None and old.shape == new.shape and not _rms(old - new) <= _APART * _rms(old):
                return Parting(stage, value.name, node)
    return Parting(stage, nodes[-1].outputs[0].name, nodes[-1])


def _rms(x: Array) -> float:
    return float(np.sqrt(np.mean(np.abs(x.astype(np.float64)) ** 2))) if x.size else 0.0
