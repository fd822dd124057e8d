"""The op record: everything the compiler knows about one operator, in one place.

A *primitive* has a numpy `reference`. A *composite* has `expand`, which writes it in other ops; it gets its type rule,
semantics and (unless it gives its own) gradient from the expansion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..errors import UnsupportedOperatorError, nearest
from ..ir import Array, Attrs, Node, TensorType, Value

if TYPE_CHECKING:
    from .emitter import Emitter

Infer = Callable[[Sequence[TensorType], Attrs], tuple[TensorType, ...]]
Reference = Callable[[Sequence[Array], Attrs], Sequence[Array]]
Expand = Callable[["Emitter", Sequence[Value], Attrs], Sequence[Value]]
Vjp = Callable[["Emitter", Node, Sequence[Value]], Value]
"""(emitter, the forward node, one cotangent per output) -> the cotangent of one input."""
Cost = Callable[[Sequence[TensorType], Sequence[TensorType], Attrs], int]
"""(input types, output types, attrs) -> floating-point operations."""


@dataclass(frozen=True)
class Sample:
    """Inputs on which an op is tested: shapes and types, attrs, and how to draw values (`low <= x < high`).

    `ints` gives, for integer inputs, the exclusive upper bound. `fixed` gives literal contents of some inputs, by
    index."""

    shapes: tuple[str, ...]
    attrs: Attrs = field(default_factory=dict)
    low: float = -2.0
    high: float = 2.0
    ints: int = 3
    fixed: tuple[tuple[int, tuple[float, ...]], ...] = ()


@dataclass(frozen=True)
class Op:
    """One record. `kind` is one of elementwise, reduction, contraction, movement, pooling, random, composite, region.

    vjps: one function per input, None where the gradient is zero or undefined (integer inputs); none: no gradient.
    singular: samples at zeros, ties, infinities, bounds and saturation, where values and gradients have to be those of
    the PyTorch function that the op stands for; or a sentence that says why there is no such point.
    """

    name: str
    kind: str
    infer: Infer
    reference: Reference | None = None
    expand: Expand | None = None
    vjps: tuple[Vjp | None, ...] = ()
    cost: Cost = lambda inputs, outputs, attrs: outputs[0].size
    samples: tuple[Sample, ...] = ()
    singular: tuple[Sample, ...] | str = ()


LINEAR = "linear: its gradient is the same everywhere"
MOVES = "it moves elements, whatever they are"
"""Reasons to have no singular samples."""


_REGISTRY: dict[str, Op] = {}


def register(op: Op) -> Op:
    """Add a record; a name can be registered once."""
    assert op.name not in _REGISTRY, f"two records for {op.name}"
    assert (op.reference is None) != (op.expand is None), f"{op.name} needs a reference or an expansion, not both"
    _REGISTRY[op.name] = op
    return op


def get(name: str) -> Op:
    """The record called `name`."""
    try:
        return _REGISTRY[name]
    except KeyError:
        raise UnsupportedOperatorError(f"no operator is called '{name}'{nearest(name, _REGISTRY)}") from None


def all_ops() -> tuple[Op, ...]:
    """Every record, by name."""
    return tuple(_REGISTRY[name] for name in sorted(_REGISTRY))


def differentiable(name: str) -> bool:
    """Whether gradients flow through the op: by its own rules, or by those of what it expands to."""
    op = get(name)
    return any(op.vjps) or op.expand is not None


def passes_gradient(node: Node, index: int) -> bool:
    """Whether a gradient of the node's outputs can reach its input `index`. An op without any rule of its own is said
    to pass one: whoever needs it is told that there is none."""
    vjps = get(node.op).vjps
    return index >= len(vjps) or vjps[index] is not None


def is_kind(node: Node, *kinds: str) -> bool:
    """Whether the node's op is of one of these kinds (regions are of kind `region`)."""
    return ("region" if node.op == "region" else get(node.op).kind) in kinds
