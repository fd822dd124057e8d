"""Reductions over a set of axes, which stay in the shape as size 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..ir import Array, Attrs, DType, Node, TensorType, Value
from .axes import of_attribute
from .emitter import Emitter
from .registry import AxisAttr, Combination, Kind, Op, Sample, Vjp, register


def _reduced(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    axes = attrs["axes"]
    assert isinstance(axes, tuple)
    return (inputs[0].with_shape(tuple(1 if i in axes else d for i, d in enumerate(inputs[0].shape))),)


Identity = Callable[[np.dtype[np.generic]], float | int]


def _extreme(least: bool) -> Identity:
    """What the maximum of nothing is: the least number of a type (or, of the minimum, the greatest)."""

    def identity(dtype: np.dtype[np.generic]) -> float | int:
        if dtype.kind == "b":
            return 0 if least else 1
        if dtype.kind in "iu":
            return int(np.iinfo(dtype.name).min if least else np.iinfo(dtype.name).max)
        return -math.inf if least else math.inf

    return identity


_FUNCTIONS: Mapping[Combination, Callable[..., Array]] = {
    Combination.SUM: np.sum,
    Combination.PRODUCT: np.prod,
    Combination.MAXIMUM: np.max,
    Combination.MINIMUM: np.min,
}


def _reduction(
    name: str,
    combines: Combination,
    vjp: Vjp,
    low: float = -2.0,
    identity: Identity | None = None,
    more: tuple[Sample, ...] = (),
    singular: tuple[float, ...] = (),
) -> None:
    """Register a reduction; one without an `identity` has that of numpy. `singular` are the contents of five rows of
    three where its gradient has to be PyTorch's."""

    def reference(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
        start = {"initial": identity(inputs[0].dtype)} if identity and inputs[0].size == 0 else {}
        result = _FUNCTIONS[combines](inputs[0], axis=attrs["axes"], keepdims=True, **start)
        return [np.asarray(result).astype(inputs[0].dtype, copy=False)]

    cases = (
        ("3,5", (1,)),
        ("3,5", (0,)),
        ("2,3,4,5", (0, 1, 2)),
        ("2,3,4,5", (2, 3)),
        ("2,3,4", (0, 1, 2)),
        ("4,3,5", (1,)),
    )
    samples = tuple(
        Sample((f"{t}[{shape}]",), {"axes": axes}, low=low) for t in ("f32", "i64") for shape, axes in cases
    )
    register(
        Op(
            name,
            Kind.REDUCTION,
            _reduced,
            reference,
            vjps=(vjp,),
            cost=lambda i, o, a: i[0].size,
            axes=of_attribute("axes"),
            axis_attrs={"axes": AxisAttr.SOME},
            selectable=combines is Combination.SUM,
            combines=combines,
            samples=samples + more,
            singular=(
                Sample((f"f32[{len(singular) // 3},3]",), {"axes": (1,)}, fixed=((0, singular),)),
                Sample((f"f32[3,{len(singular) // 3}]",), {"axes": (0,)}, fixed=((0, singular),)),
                *(() if identity else _EMPTY),
            ),
        )
    )


_EMPTY = (Sample(("f32[2,0]",), {"axes": (1,)}), Sample(("f32[0,3]",), {"axes": (0,)}))
_TIES = (1.0, 1.0, 0.0, 2.0, 2.0, 2.0, 0.0, -1.0, -0.0, -math.inf, -math.inf, math.inf, 1.0, math.nan, math.nan)


def _extremum_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    """Shared equally by all elements that attain the extremum, as in PyTorch's amax."""
    x = node.inputs[0]
    axes = node.attrs["axes"]
    assert isinstance(axes, tuple)
    hit = e.cast(e.op("equal", x, node.output), x.type.dtype)
    return e.mul(hit, e.div(dys[0], e.sum(hit, axes)))


_reduction(
    "reduce_sum", Combination.SUM, lambda e, n, dys: e.broadcast_to(dys[0], n.inputs[0].type.shape), singular=_TIES
)
_reduction("reduce_max", Combination.MAXIMUM, _extremum_vjp, identity=_extreme(least=True), singular=_TIES)
_reduction("reduce_min", Combination.MINIMUM, _extremum_vjp, identity=_extreme(least=False), singular=_TIES)


def _product_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    """The product of all other elements: of those before times of those after, which needs no division by zero."""
    x, axes = node.inputs[0], node.attrs["axes"]
    order = [*(axis for axis in range(x.type.rank) if axis not in axes), *axes]
    moved = e.transpose(x, order)
    kept = len(order) - len(axes)
    rows = e.reshape(moved, (*moved.type.shape[:kept], math.prod(moved.type.shape[kept:])))
    before, after = (e.op("cumprod", rows, axis=kept, exclusive=True, reverse=reverse) for reverse in (False, True))
    others = e.transpose(e.reshape(e.mul(before, after), moved.type.shape), [int(i) for i in np.argsort(order)])
    return e.mul(dys[0], others)


_FACTORS = (0.0, 2.0, 3.0, 0.0, 0.0, 3.0, 1.0, 2.0, 3.0, 0.0, 0.0, 0.0)
_OF_ONE = Sample(("f32[3,1]",), {"axes": (1,)})
_WITH_ZERO = Sample(("f32[4]",), {"axes": (0,)}, fixed=((0, (2, 0, 3, 5)),))
_reduction("reduce_prod", Combination.PRODUCT, _product_vjp, low=0.5, more=(_WITH_ZERO, _OF_ONE), singular=_FACTORS)


def _argmax_type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    shape = tuple(1 if i == attrs["axis"] else d for i, d in enumerate(inputs[0].shape))
    return (TensorType(DType.I64, shape),)


register(
    Op(
        "argmax",
        Kind.MOVEMENT,
        _argmax_type,
        lambda inputs, attrs: [np.argmax(inputs[0], axis=int(attrs["axis"]), keepdims=True).astype(np.int64)],
        cost=lambda i, o, a: i[0].size,
        axes=of_attribute("axis"),
        axis_attrs={"axis": AxisAttr.ONE},
        samples=(
            Sample(("f32[3,5]",), {"axis": 1}),
            Sample(("f32[3,4,5]",), {"axis": 0}),
            Sample(("i64[3,4,5]",), {"axis": 1}),
        ),
    )
)
