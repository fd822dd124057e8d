"""Operators of our own domain that stand for functions of PyTorch (`capture/translations.py`): values and gradients are
PyTorch's, also where ONNX's operators have others."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...ir import DType, Value
from ...ops import Emitter
from .registry import NodeContext, Operand, converts, dtype_of

_SAME = {
    "LogAddExp": "log_add_exp",
    "XLogY": "xlogy",
    "Entropy": "entropy",
    "Sinc": "sinc",
    "Atan2": "atan2",
    "LogGamma": "lgamma",
    "Digamma": "digamma",
    "InverseErf": "erfinv",
}


@converts(*_SAME)
def same(c: NodeContext) -> Sequence[Operand]:
    return [c.e.op(_SAME[c.node.op_type], *(c.value(index) for index in range(len(c.operands))))]


@converts("Hypotenuse")
def hypotenuse(c: NodeContext) -> Sequence[Operand]:
    """As in PyTorch, without a gradient at zero."""
    a, b = c.value(0), c.value(1)
    return [c.e.op("sqrt", c.e.add(c.e.mul(a, a), c.e.mul(b, b)))]


@converts("LogSigmoid")
def log_sigmoid(c: NodeContext) -> Sequence[Operand]:
    return [c.e.op("neg", c.e.op("softplus", c.e.op("neg", c.value(0))))]


@converts("Logit")
def logit(c: NodeContext) -> Sequence[Operand]:
    eps = c.attr("eps", -1.0)
    return [c.e.op("logit", c.value(0), **({"eps": eps} if eps >= 0.0 else {}))]


def _axes(c: NodeContext, rank: int) -> tuple[int, ...]:
    given = c.attr("axes", tuple(range(rank)))
    return tuple(sorted({c.check_axis(axis, rank) for axis in given}))


def _kept(c: NodeContext, reduced: Value, axes: Sequence[int]) -> Value:
    """The result of a reduction, with or without the axes that are now 1 long."""
    if c.attr("keepdims", 0):
        return reduced
    return c.e.reshape(reduced, [d for axis, d in enumerate(reduced.type.shape) if axis not in axes])


def _typed(c: NodeContext, x: Value) -> Value:
    to = c.attr("to", 0)
    return c.e.cast(x, dtype_of(to, c.where)) if to else x


@converts("VectorNorm")
def vector_norm(c: NodeContext) -> Sequence[Operand]:
    x = _typed(c, c.value(0))
    axes = _axes(c, x.type.rank)
    return [_kept(c, norm(c.e, x, axes, float(c.attr("p", "2.0"))), axes)]


def norm(e: Emitter, x: Value, axes: tuple[int, ...], p: float) -> Value:
    """The p-norm over some axes, which stay as size 1; of one element it is its magnitude."""
    if p == 0.0:
        return e.sum(e.cast(e.op("logical_not", e.op("equal", x, e.scalar(0.0, x))), x.type.dtype), axes)
    if p == 2.0 and axes:
        return e.op("l2_norm", x, axes=axes)
    size = e.op("abs", x)
    if not axes:
        return size
    if p == 1.0:
        return e.sum(size, axes)
    if math.isinf(p):
        return e.op("reduce_max" if p > 0 else "reduce_min", size, axes=axes)
    return e.op("power_norm", x, axes=axes, p=p)


@converts("PairwiseDistances")
def pairwise_distances(c: NodeContext) -> Sequence[Operand]:
    """[…, m, d] and […, n, d] -> […, m, n]"""
    a, b = c.value(0), c.value(1)
    rows = c.e.reshape(a, (*a.type.shape[:-1], 1, a.type.shape[-1]))
    columns = c.e.reshape(b, (*b.type.shape[:-2], 1, *b.type.shape[-2:]))
    difference = c.e.sub(rows, columns)
    last = difference.type.rank - 1
    distances = norm(c.e, difference, (last,), float(c.attr("p", "2.0")))
    return [c.e.reshape(distances, distances.type.shape[:-1])]


@converts("StandardDeviation")
def standard_deviation(c: NodeContext) -> Sequence[Operand]:
    """With the mean as second result."""
    x, axes = c.value(0), _axes(c, c.value(0).type.rank)
    deviation = c.e.op("standard_deviation", x, axes=axes, correction=int(c.attr("correction", 1)))
    return [_kept(c, deviation, axes), _kept(c, c.e.mean(x, axes), axes)]


@converts("AdaptiveMaxPool")
def adaptive_max_pool(c: NodeContext) -> Sequence[Operand]:
    """Windows that share the image evenly; the first of a window's greatest elements takes the gradient."""
    x = c.value(0)
    sizes: tuple[int, ...] = c.attr("output_size", ())
    first = x.type.rank - len(sizes)
    lead, spatial = x.type.shape[:first], x.type.shape[first:]
    if any(size < 1 or n % size for n, size in zip(spatial, sizes, strict=True)):
        raise c.unsupported(f"a pool of {list(spatial)} down to {list(sizes)}, which does not divide it evenly,")
    parts = [part for n, size in zip(spatial, sizes, strict=True) for part in (size, n // size)]
    windows = c.e.reshape(x, (*lead, *parts))
    axes = tuple(range(first + 1, windows.type.rank, 2))
    return [c.e.reshape(c.e.op("first_maximum", windows, axes=axes), (*lead, *sizes))]


@converts("Clamp")
def clamp(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    if not c.has(1) and not c.has(2):
        return [c.e.op("clamp", x, lo=c.attr("lo", -math.inf), hi=c.attr("hi", math.inf))]
    low = c.value(1) if c.has(1) else c.e.const(_unbounded(x.type.dtype, False), x.type.dtype)
    high = c.value(2) if c.has(2) else c.e.const(_unbounded(x.type.dtype, True), x.type.dtype)
    return [c.e.op("clamp", x, low, high)]


def _unbounded(dtype: DType, upper: bool) -> float:
    """A bound that nothing is beyond."""
    if dtype.is_float:
        return math.inf if upper else -math.inf
    limits = np.iinfo(dtype.numpy.name)
    return int(limits.max if upper else limits.min)


@converts("FirstMaximum", "FirstMinimum")
def first_extremum(c: NodeContext) -> Sequence[Operand]:
    """The values and where they are."""
    x = c.value(0)
    axis = c.axis("axis", 0, x.type.rank)
    if not x.type.rank:
        return [x, np.zeros((), np.int64)]
    greatest = c.node.op_type == "FirstMaximum"
    values = c.e.op("first_maximum" if greatest else "first_minimum", x, axes=(axis,))
    if not greatest:
        x = c.e.op("neg" if x.type.dtype.is_float else "bitwise_not", x)  # the least integer has no negative
    return [_kept(c, values, (axis,)), _kept(c, c.e.op("argmax", x, axis=axis), (axis,))]


@converts("CumulativeProduct")
def cumulative_product(c: NodeContext) -> Sequence[Operand]:
    x = _typed(c, c.value(0))
    axis = c.axis("axis", 0, x.type.rank)
    if not x.type.rank:
        return [x]
    return [c.e.op("cumprod", x, axis=axis, exclusive=False, reverse=False)]


@converts("CumulativeLogSumExp")
def cumulative_log_sum_exp(c: NodeContext) -> Sequence[Operand]:
    """Of each element and all before it along an axis, each sum from its own greatest element: n x n of them."""
    x = c.value(0)
    axis = c.axis("axis", 0, x.type.rank)
    if not x.type.rank:
        return [x]
    order = [*(other for other in range(x.type.rank) if other != axis), axis]
    rows = c.e.transpose(x, order)
    count, last = x.type.shape[axis], x.type.rank
    seen = c.e.const(np.tril(np.ones((count, count), bool)))
    square = c.e.where(seen, c.e.reshape(rows, (*rows.type.shape[:-1], 1, count)), -math.inf)
    sums = c.e.reshape(c.e.op("log_sum_exp", square, axes=(last,)), rows.type.shape)
    return [c.e.transpose(sums, [int(i) for i in np.argsort(order)])]


@converts("BinaryCrossEntropy", "BinaryCrossEntropyWithLogits")
def binary_cross_entropy(c: NodeContext) -> Sequence[Operand]:
    """Of probabilities, or of scores with a weight of the positive answers."""
    if c.node.op_type == "BinaryCrossEntropy":
        losses = c.e.op("binary_cross_entropy", c.value(0), c.value(1))
    else:
        weights = [c.value(3)] if c.has(3) else []
        losses = c.e.op("bce_with_logits", c.value(0), c.value(1), *weights)
    if c.has(2):
        losses = c.e.mul(losses, c.value(2))
    reduction, axes = c.attr("reduction", "mean"), range(losses.type.rank)
    if reduction == "none":
        return [losses]
    return [(c.e.mean if reduction == "mean" else c.e.sum)(losses, axes, keepdims=False)]
