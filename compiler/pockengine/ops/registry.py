"""The op record: everything the compiler knows about one operator, in one place.

A *primitive* has a numpy `reference`. A *composite* has `expand`, which writes it in other ops; it gets its type rule,
semantics and (unless it gives its own) gradient from the expansion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import TYPE_CHECKING

from ..errors import UnsupportedOperatorError, nearest
from ..ir import Array, Attr, Attrs, DType, Node, TensorType, Value
from .axes import AxesRule, SizedRule, Sources, broadcast

if TYPE_CHECKING:
    from .emitter import Emitter

Infer = Callable[[Sequence[TensorType], Attrs], tuple[TensorType, ...]]
Reference = Callable[[Sequence[Array], Attrs], Sequence[Array]]
Expand = Callable[["Emitter", Sequence[Value], Attrs], Sequence[Value]]
Vjp = Callable[["Emitter", Node, Sequence[Value]], Value]
"""(emitter, the forward node, one cotangent per output) -> the cotangent of one input."""
Cost = Callable[[Sequence[TensorType], Sequence[TensorType], Attrs], int]
"""(input types, output types, attrs) -> floating-point operations."""


class Kind(StrEnum):
    """How an operator computes: what fuses it, and which loops a backend makes of it."""

    ELEMENTWISE = "elementwise"
    """Each element of the result is a function of one element of each operand, which broadcast."""
    REDUCTION = "reduction"
    """Combines the elements along `axes`, which stay in the shape with size 1."""
    CONTRACTION = "contraction"
    """Sums products of two operands."""
    MOVEMENT = "movement"
    """Puts elements elsewhere, or goes through them in order."""
    POOLING = "pooling"
    """Combines the elements of windows."""
    RANDOM = "random"
    """Draws from counters."""
    COMPOSITE = "composite"
    """Written in other operators."""
    REGION = "region"
    """A node with a body. No operator: passes make it."""


class Role(Enum):
    """What an operand or a result is to its operator."""

    DATA = "data"
    """Anything else."""
    IMAGE = "image"
    """Four axes, batch, channels and two of pixels, in the order that attribute `layout` says: NCHW or NHWC."""
    FILTERS = "filters"
    """The weights of a convolution, [out, in / groups, height, width] in either layout."""


class Convolution(Enum):
    """Which of the three operators of a convolution a record is. Each is a gradient of the others."""

    FORWARD = "forward"
    """(image, filters) -> image"""
    IMAGE_GRADIENT = "image gradient"
    """(gradient of the result, filters) -> gradient of the image"""
    FILTER_GRADIENT = "filter gradient"
    """(image, gradient of the result) -> gradient of the filters"""


class Combination(Enum):
    """How a reduction makes one element of two."""

    SUM = "sum"
    PRODUCT = "product"
    MAXIMUM = "maximum"
    """The greater one; NaN if either is."""
    MINIMUM = "minimum"
    """The lesser one; NaN if either is."""


class Carried(Enum):
    """Which elements of its first operand an operator passes on. Their order, their shape and their type may change,
    and one may come several times; nothing else is in the result."""

    ALL = "all"
    SOME = "some"


class AxisAttr(Enum):
    """How an attribute speaks of axes."""

    ONE = "one"
    """The number of an axis."""
    SOME = "some"
    """A tuple of such numbers."""
    EACH = "each"
    """A tuple with an entry for each axis."""


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
class Indices:
    """The operand that names elements of a tensor.

    operand  its position
    limit    node -> how many elements it chooses from: an index is at least 0 and less
    ignored  the attribute with a number that an index may be besides, to be left out
    reads    the operator does nothing but read the elements of operand 0, along attribute `axis`, that are named:
             such a table need not be in memory as a whole"""

    operand: int
    limit: Callable[[Node], int]
    ignored: str | None = None
    reads: bool = False


@dataclass(frozen=True)
class Op:
    """One record. The first fields say what the operator means, the others what passes ask, so that these need not
    know it by name. `tests/compiler/ops/test_axes.py` holds the others to the reference.

    vjps         one function per input, None where the gradient is zero or undefined (integer inputs); none at all: it
                 has no gradient
    singular     samples at zeros, ties, infinities, bounds and saturation, where values and gradients have to be those
                 of the PyTorch function that the op stands for; or a sentence that says why there is no such point
    axes         node -> for each axis of the result, the operands' axes that run along it: a part of the result is made
                 of those parts of the operands. None: nothing is known. Elementwise operators need not say: they
                 broadcast
    sized        the attributes of a node that makes such a part; the node's own unless said
    axis_attrs   the attributes that speak of axes. Who has any, or is elementwise, can be computed with all operands
                 and results of the result's rank transposed alike
    roles        of the operands, then of the results; `Role.DATA` beyond the last
    indices      its operand of integers that name elements, and of what
    view         the result is the operand's bytes under another shape: it costs nothing and lives as long
    selectable   a selection from the result moves to the operands: it is of the sums and products that weight gradients
                 are made of. Not of what an activation is made of as well, which would be computed twice
    convolution  which of a convolution's three operators it is
    combines     of a reduction: how two elements become one
    carries      the result is made of elements of the first operand, and of which
    decompresses the result is the numbers of a tensor that is smaller in memory: they are made where they are read
    running      the operands that are running statistics: with attribute `training`, results after the first are their
                 new contents
    """

    name: str
    kind: Kind
    infer: Infer
    reference: Reference | None = None
    expand: Expand | None = None
    vjps: tuple[Vjp | None, ...] = ()
    cost: Cost = lambda inputs, outputs, attrs: outputs[0].size
    samples: tuple[Sample, ...] = ()
    singular: tuple[Sample, ...] | str = ()
    axes: AxesRule | None = None
    sized: SizedRule = lambda node, shape: node.attrs
    axis_attrs: Mapping[str, AxisAttr] = field(default_factory=dict)
    roles: tuple[Role, ...] = ()
    indices: Indices | None = None
    view: bool = False
    selectable: bool = False
    convolution: Convolution | None = None
    combines: Combination | None = None
    carries: Carried | None = None
    decompresses: bool = False
    running: tuple[int, ...] = ()


LINEAR = "linear: its gradient is the same everywhere"
MOVES = "it moves elements, whatever they are"
PRODUCTS = "sums of products: their gradients are, too"
"""Reasons to have no singular samples."""


_REGISTRY: dict[str, Op] = {}
_REGION = Op("region", Kind.REGION, lambda inputs, attrs: ())
"""Stands for every node with a body: passes that ask get no for an answer."""


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


def record_of(node: Node) -> Op:
    """The record of a node's operator; of a region one that says nothing but its kind."""
    return _REGION if node.op == "region" else get(node.op)


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
    return (_REGISTRY.get(node.op) or record_of(node)).kind in kinds  # asked very often


def is_view(node: Node) -> bool:
    """Whether the node's result is its operand's bytes under another shape."""
    record = _REGISTRY.get(node.op)  # asked very often; no region is one
    return record is not None and record.view


def reads_rows(node: Node) -> bool:
    """Whether the node does nothing but read the rows of its first operand, a table, that its second names."""
    indices = record_of(node).indices
    return indices is not None and indices.reads and node.attrs["axis"] == 0


def convolution_of(node: Node) -> Convolution | None:
    """Which of a convolution's three operators the node is; None for any other."""
    return record_of(node).convolution


def combination_of(node: Node) -> Combination | None:
    """How the node, a reduction, makes one element of two; None for any other."""
    return record_of(node).combines


def decompresses(node: Node) -> bool:
    """Whether the node makes numbers of a compressed tensor."""
    return record_of(node).decompresses


def widens(node: Node) -> bool:
    """Whether the node does nothing but make f32 of 16-bit floats."""
    return node.op == "cast" and node.inputs[0].type.dtype.is_narrow and node.output.type.dtype is DType.F32


def unpacks(node: Node) -> bool:
    """Whether the node makes numbers of a tensor that is smaller in memory."""
    return decompresses(node) or widens(node)


def statistics_of(node: Node) -> tuple[Value, ...]:
    """The node's operands that are running statistics."""
    return tuple(node.inputs[index] for index in record_of(node).running)


def roles_of(node: Node) -> list[tuple[Value, Role]]:
    """The node's operands, then its results, each with its role."""
    values, roles = (*node.inputs, *node.outputs), record_of(node).roles
    return list(zip(values, (*roles, *(Role.DATA,) * (len(values) - len(roles))), strict=True))


def axes_of(node: Node) -> Sources | None:
    """Where each axis of the node's result comes from (`Op.axes`); None where that is not known."""
    record = record_of(node)
    if record.axes is not None:
        return record.axes(node)
    return broadcast(node) if record.kind is Kind.ELEMENTWISE else None


def consumed_axes(node: Node, operand: int = 0) -> tuple[int, ...]:
    """The axes of an operand that no axis of the result comes from: a reduction's, the inner ones of a product.

    Only for an operator whose `axes` are known."""
    sources = axes_of(node)
    assert sources is not None
    carried = {source[operand] for source in sources if source is not None}
    return tuple(axis for axis in range(node.inputs[operand].type.rank) if axis not in carried)


def broadcasts(node: Node) -> bool:
    """Whether the node's operands are only spread over its result: each of their axes lies where the result's does, as
    numpy broadcasts, and nothing is combined along any."""
    sources, rank = axes_of(node), node.output.type.rank
    return sources is not None and all(
        size == 1 or ((source := sources[axis + rank - value.type.rank]) is not None and source[index] == axis)
        for index, value in enumerate(node.inputs)
        for axis, size in enumerate(value.type.shape)
    )


def reduced_axes(node: Node) -> tuple[int, ...] | None:
    """The axes that the node reduces to one element, each other one staying where it is; None where it does not."""
    record, sources = record_of(node), axes_of(node)
    told = record.axis_attrs.values()
    if sources is None or len(node.inputs) != 1 or not told or AxisAttr.EACH in told:
        return None
    kept = all(
        source == (axis,) or (source is None and node.output.type.shape[axis] == 1)
        for axis, source in enumerate(sources)
    )
    return consumed_axes(node) if kept else None


def along(node: Node, axes: Sequence[int]) -> dict[str, Attr]:
    """The attributes of a node that reduces, when it reduces these axes instead."""
    told = record_of(node).axis_attrs
    new = {key: tuple(axes) if how is AxisAttr.SOME else axes[0] for key, how in told.items()}
    return {**node.attrs, **new}


def permuted(node: Node, perm: Sequence[int]) -> dict[str, Attr]:
    """The node's attributes when its operands and results of full rank are all transposed by `perm`."""

    def moved(how: AxisAttr, value: Attr) -> Attr:
        if how is AxisAttr.ONE:
            return perm.index(int(value))
        if how is AxisAttr.SOME:
            return tuple(sorted(perm.index(axis) for axis in value))
        return tuple(value[axis] for axis in perm)

    told = record_of(node).axis_attrs
    return {key: moved(told[key], value) if key in told else value for key, value in node.attrs.items()}
