"""Random graphs of inputs full of zeros, ties and saturation, with gradients stopped here and there: what the gradient
of a random linear functional is in PyTorch, here, and as machine code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from hypothesis.control import BuildContext
from hypothesis.internal.conjecture.data import ConjectureData
from hypothesis.strategies import SearchStrategy

from pockengine import interp
from pockengine.errors import PockError
from pockengine.ir import Array, DType, Graph, TensorType, Value, render
from tests.compiler import pytorch
from tests.compiler.gradients import WEIGHTS, in_machine_code, with_gradients

from . import elementwise, layers, movement, singular
from .pipeline import one_sentence
from .singular import one_of
from .sketch import Draw, Sketch, random_input

OUTPUT = "y"
TOLERANCE = 2e-3
"""Of a number, relative to it or to the greatest one of its tensor."""
POOL = (0.0, 0.0, 0.0, 1.0, 1.0, -1.0, 0.5, 0.5, 2.0, -2.0, 20.0, -20.0, 100.0, -100.0, 1e-20)
POSITIVE = (0.0, 1.0, 1.0, 0.5, 2.0)

NODES = (
    *[build for build in singular.NODES for _ in range(3)],
    *(elementwise.compare, layers.linear, layers.product, layers.convolution, layers.pooling, layers.pooling),
    *(layers.norm, layers.attention, layers.embedding, movement.reshape, movement.transpose, movement.broadcast),
    *(movement.cut, movement.pad, movement.join, movement.split, movement.gather, movement.scatter),
    *(movement.cumulative, movement.top),
)


class Singular(Sketch):
    """Parameters are inputs, too, and nearly all contents come from a few numbers."""

    def __init__(self, seed: int, batch: int, infinite: bool) -> None:
        super().__init__(seed, batch)
        self.infinite = infinite

    def _contents(self, type: TensorType, pool: Sequence[float]) -> Array:
        return self.rng.choice(np.array(pool, type.dtype.numpy), type.shape)

    def input(self, name: str, type: TensorType) -> Value:
        value = self.builder.input(name, type)
        self.arrays[value] = self._contents(type, POOL) if type.dtype.is_float else random_input(type, self.rng)
        return value

    def param(self, kind: str, *shape: int, low: float = -1.0, high: float = 1.0, dtype: DType = DType.F32) -> Value:
        value = self.builder.input(f"{kind}{len(self.builder.inputs)}", TensorType(dtype, shape))
        self.arrays[value] = self._contents(value.type, POSITIVE if low >= 0 else POOL)
        return value

    def add(self, *values: Value) -> None:
        super().add(*values)
        if self.infinite:
            floats = [value for value in values if value.type.dtype is DType.F32 and value not in self.numbers]
            self.numbers += [value for value in floats if not np.isnan(self.arrays[value]).any()]

    def bounded(self, value: Value, most: float = 20.0) -> Value:
        return value if self.rng.random() < 0.3 else super().bounded(value, most)


@dataclass(frozen=True)
class Case:
    """A graph with one output, and the contents of its inputs, f32."""

    graph: Graph
    inputs: dict[str, Array]


def drawn(count: int, number: int) -> list[Case]:
    """`count` cases, each of its own random numbers."""
    return [_case((number << 32) + index) for index in range(count)]


def _drawing(number: int) -> Draw:
    """hypothesis' `draw`, evenly random: its own search for failures would repeat itself for what is tried once."""
    data = ConjectureData(random=Random(number))

    def draw(strategy: SearchStrategy[Any]) -> Any:
        with BuildContext(data, wrapped_test=_drawing):
            return data.draw(strategy)

    return draw


def _case(number: int) -> Case:
    """2 to 10 random nodes behind one or two inputs; after some, the gradient is stopped. One case of five goes on with
    values that are infinite somewhere."""
    s, draw = Singular(number, 1 + number % 3, number % 5 == 0), _drawing(number)
    with np.errstate(all="ignore"):
        for index in range(s.rng.integers(1, 3)):
            shape = (s.batch, *(int(size) for size in s.rng.integers(1, 6, s.rng.integers(1, 4))))
            s.add(s.input(f"x{index}", TensorType(DType.F32, shape)))
        for _ in range(s.rng.integers(2, 11)):
            value = one_of(s, s.numbers[-3:] if s.rng.random() < 0.5 else s.numbers)
            made = one_of(s, NODES)(draw, s, value)
            s.add(_stopped(s, value, made))
        last = [s.e.reshape(value, (value.type.size,)) for value in s.numbers[-3:]]
        out = s.e.op("concat", *last, axis=0) if len(last) > 1 else last[0]
        s.settle()
    graph = s.finish({OUTPUT: out})
    weight = s.rng.choice(np.array((0.5, -1.25, 0.75, 1.0), np.float32), out.type.shape)
    return Case(graph, {**{value.name: s.arrays[value] for value in graph.inputs}, WEIGHTS: weight})


def _stopped(s: Sketch, before: Value, made: Value) -> Value:
    """The value, its gradient stopped, or passed straight through to what it is made of."""
    kind = s.rng.random()
    if kind < 0.06:
        return s.e.op("stop_gradient", made)
    if kind < 0.1 and made.type == before.type:
        return s.e.add(before, s.e.op("stop_gradient", s.e.sub(made, before)))
    return made


Numbers = dict[str, Array]


def in_pytorch(case: Case, dtype: torch.dtype) -> Numbers:
    """The value, and the gradients of the inputs that have one, at this precision."""
    given = {name: torch.tensor(array) for name, array in case.inputs.items()}
    given = {name: t.to(dtype) if t.is_floating_point() else t for name, t in given.items()}
    floats = [value.name for value in case.graph.inputs if value.type.dtype.is_float]
    leaves = [given[name].requires_grad_() for name in floats]
    value = pytorch.evaluate(case.graph, given, dtype)[OUTPUT]
    total = (value * given[WEIGHTS]).sum()
    found = torch.autograd.grad(total, leaves, allow_unused=True) if total.requires_grad else [None] * len(leaves)
    gradients = {name: g.numpy() for name, g in zip(floats, found, strict=True) if g is not None}
    return {"value": value.detach().numpy(), **gradients}


def here(case: Case, dtype: np.dtype[np.generic] | type) -> Numbers:
    """The same by our own gradients in the interpreter."""
    given = {name: a.astype(dtype) if a.dtype.kind == "f" else a for name, a in case.inputs.items()}
    with np.errstate(all="ignore"):
        return interp.evaluate(with_gradients(case.graph, OUTPUT), given)


def alike(a: Array, b: Array) -> Array:
    """Which numbers of two tensors are the same, but for rounding."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    with np.errstate(all="ignore"):
        finite = np.isfinite(a) & np.isfinite(b)
        scale = max(1e-3, float(np.max(np.abs(b), initial=0.0, where=finite)))
        near = np.abs(a - b) <= TOLERANCE * np.minimum(scale, np.abs(b) + 1e-3 * scale + 1e-6)
        return np.where(finite, near, (a == b) | (np.isnan(a) & np.isnan(b)))


@dataclass
class Tally:
    """What became of many cases. A number on which PyTorch's own precisions do not agree is not judged."""

    agreed: int = 0
    refused: int = 0
    numbers: int = 0
    unsure: int = 0
    differences: list[str] = field(default_factory=list)

    def add(self, cases: Sequence[Case], folder: Path) -> None:
        """Judge the cases, compiled together."""
        ready = [case for case in cases if self._accepted(case)]
        graphs = [with_gradients(case.graph, OUTPUT) for case in ready]
        compiled = in_machine_code(graphs, [case.inputs for case in ready], folder)
        for case, machine in zip(ready, compiled, strict=True):
            differences = [machine] if isinstance(machine, str) else list(self._differences(case, machine))
            self.agreed += not differences
            if differences:
                self.differences.append("\n".join([*differences[:6], _described(case)]))

    def _accepted(self, case: Case) -> bool:
        try:
            with_gradients(case.graph, OUTPUT)
        except PockError as error:
            assert one_sentence(error), f"not a sentence: {error!r}"
            self.refused += 1
            return False
        return True

    def _differences(self, case: Case, machine: Numbers) -> Iterator[str]:
        exact, single = in_pytorch(case, torch.float64), in_pytorch(case, torch.float32)
        ours, ours_single = here(case, np.float64), here(case, np.float32)
        for name in sorted({*exact, *ours}):
            shape = next(a.shape for a in (exact.get(name), ours.get(name)) if a is not None)
            want, near, wide, narrow, built = (
                numbers.get(name, np.zeros(shape)) for numbers in (exact, single, ours, ours_single, machine)
            )
            sure = alike(near, want)
            self.numbers += want.size
            self.unsure += int(want.size - np.count_nonzero(sure))
            yield from _first(name, "the interpreter", narrow, near, sure & ~alike(wide, want) & ~alike(narrow, near))
            yield from _first(name, "machine code", built, near, sure & ~alike(built, near) & ~alike(built, narrow))


def _first(name: str, who: str, found: Array, wanted: Array, wrong: Array) -> Iterator[str]:
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        count = f"{np.count_nonzero(wrong)} of {wrong.size}"
        yield f"{name}{list(place)}: {who} has {found[place]}, PyTorch {wanted[place]} ({count})"


def _described(case: Case) -> str:
    contents = "\n".join(f"{name} = {array.tolist()}" for name, array in case.inputs.items())
    return f"{render(case.graph)}\n{contents}"
