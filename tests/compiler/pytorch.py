"""Graphs evaluated by PyTorch: for each operator the function of PyTorch that it stands for, so that PyTorch's autograd
says what its gradient is. Knows nothing of our own gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from pockengine import interp
from pockengine.ir import Array, DType, Graph, Node, Value
from pockengine.ops import get
from pockengine.ops.resample import matrix

Function = Callable[..., Any]
"""(tensors, and the node's attributes by name) -> a tensor, or several."""

TYPES = {
    DType.F64: torch.float64,
    DType.F32: torch.float32,
    DType.F16: torch.float16,
    DType.BF16: torch.bfloat16,
    DType.I64: torch.int64,
    DType.I32: torch.int32,
    DType.I16: torch.int16,
    DType.I8: torch.int8,
    DType.U8: torch.uint8,
    DType.BOOL: torch.bool,
}


def evaluate(graph: Graph, inputs: Mapping[str, Tensor], dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """The graph's outputs by name; `inputs` gives inputs by name. What the graph has as f32 is computed as `dtype`."""
    values: dict[Value, Any] = {}
    for value, array in graph.consts.items():
        values[value] = tensor(array).to(dtype) if value.type.dtype is DType.F32 else tensor(array)
    for value in graph.inputs:
        values[value] = inputs[value.name]
    for node in graph.nodes:
        values.update(zip(node.outputs, run(node, [values[v] for v in node.inputs], dtype), strict=True))
    return {name: values[value] for name, value in graph.outputs.items()}


def run(node: Node, tensors: Sequence[Tensor], dtype: torch.dtype = torch.float32) -> Sequence[Tensor]:
    """The outputs of a node. What has no floating-point output has no gradient: the reference says what it is."""
    if not any(value.type.dtype.is_float for value in node.outputs):
        return [tensor(np.asarray(a)) for a in interp.run_node(node, [t.detach().numpy() for t in tensors])]
    if node.op == "cast":
        to = DType(node.attrs["to"])
        return [tensors[0].to(dtype if to is DType.F32 else TYPES[to])]
    function = FUNCTIONS.get(node.op)
    assert function is not None, f"no function of PyTorch is said to be {node.op}"
    result = function(*tensors, **node.attrs)
    found = list(result) if isinstance(result, tuple | list) else [result]
    return [*found, *[torch.zeros(value.type.shape) for value in node.outputs[len(found) :]]]


def tensor(array: Array) -> Tensor:
    """A tensor of the array's contents."""
    return torch.tensor(np.asarray(array))


def differentiable(name: str) -> bool:
    """Whether gradients flow through the operator: it has rules for some input, or is written in others."""
    return any(get(name).vjps) or get(name).expand is not None


# windows
def _outside(x: Tensor, layout: str) -> Tensor:
    return x.movedim(-1, 1) if layout == "NHWC" else x


def _inside(x: Tensor, layout: str) -> Tensor:
    return x.movedim(1, -1) if layout == "NHWC" else x


def _padded(x: Tensor, pad: Sequence[int], value: float = 0.0) -> Tensor:
    top, left, bottom, right = pad
    return F.pad(x, (left, right, top, bottom), value=value)


def _conv2d(x: Tensor, w: Tensor, *, stride: Any, pad: Any, dilation: Any, groups: int, layout: str) -> Tensor:
    image = _padded(_outside(x, layout), pad)
    return _inside(F.conv2d(image, w, None, stride, 0, dilation, groups), layout)


def _conv2d_dx(dy: Tensor, w: Tensor, *, size: Any, pad: Any, layout: str, **geometry: Any) -> Tensor:
    """geometry: stride, dilation and groups, as PyTorch calls them, too"""
    full = F.conv_transpose2d(_outside(dy, layout), w, **geometry)
    top, left, bottom, right = pad
    height, width = size[0] + top + bottom, size[1] + left + right
    full = F.pad(full, (0, width - full.shape[3], 0, height - full.shape[2]))
    return _inside(full[:, :, top : top + size[0], left : left + size[1]], layout)


def _max_pool(x: Tensor, *, kernel: Any, stride: Any, pad: Any, dilation: Any, layout: str) -> Tensor:
    image = _padded(_outside(x, layout), pad, -math.inf)
    return _inside(F.max_pool2d(image, kernel, stride, 0, dilation), layout)


def _avg_pool(
    x: Tensor, *, kernel: Any, stride: Any, pad: Any, dilation: Any, layout: str, count_include_pad: bool
) -> Tensor:
    image = _outside(x, layout)

    def sums(image: Tensor) -> Tensor:
        n, c, h, w = image.shape
        patches = F.unfold(image.reshape(n * c, 1, h, w), kernel, dilation, 0, stride).sum(1)
        heights = (h - (kernel[0] - 1) * dilation[0] - 1) // stride[0] + 1
        return patches.reshape(n, c, heights, -1)

    count = torch.full((), float(math.prod(kernel)))
    if not count_include_pad:
        count = sums(_padded(torch.ones_like(image), pad))
    return _inside(sums(_padded(image, pad)) / count, layout)


# movement
def _slice(x: Tensor, *, starts: Any, stops: Any, steps: Any) -> Tensor:
    return x[tuple(slice(*triple) for triple in zip(starts, stops, steps, strict=True))]


def _pad(x: Tensor, *, low: Any, high: Any, interior: Any, value: float) -> Tensor:
    if any(interior):
        spread = [n + max(0, n - 1) * gap for n, gap in zip(x.shape, interior, strict=True)]
        place = tuple(slice(None, None, gap + 1) for gap in interior)
        result = torch.full(spread, value, dtype=x.dtype)
        result[place] = x
        x = result
    sides = [side for pair in zip(reversed(low), reversed(high), strict=True) for side in pair]
    return F.pad(x, sides, value=value)


def _gather(x: Tensor, indices: Tensor, *, axis: int, padding: int | None = None) -> Tensor:
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    taken = x.index_select(axis, indices.reshape(-1).long()).reshape(shape)
    if padding is None:
        return taken
    is_padding = (indices == padding).reshape(*indices.shape, *[1] * (x.dim() - axis - 1))
    return torch.where(is_padding, taken.detach(), taken)


def _flat(updates: Tensor, indices: Tensor, axis: int) -> Tensor:
    return updates.reshape(*updates.shape[:axis], indices.numel(), *updates.shape[axis + indices.dim() :])


def _scatter_add(updates: Tensor, indices: Tensor, *, axis: int, size: int) -> Tensor:
    flat = _flat(updates, indices, axis)
    zeros = torch.zeros(*flat.shape[:axis], size, *flat.shape[axis + 1 :], dtype=updates.dtype)
    return zeros.index_add(axis, indices.reshape(-1), flat)


def _scatter_set(x: Tensor, indices: Tensor, updates: Tensor, *, axis: int) -> Tensor:
    return x.index_copy(axis, indices.reshape(-1), _flat(updates, indices, axis))


def _scatter_reduce(x: Tensor, indices: Tensor, updates: Tensor, *, axis: int, reduction: str) -> Tensor:
    flat = _flat(updates, indices, axis)
    along = indices.reshape(-1, *[1] * (flat.dim() - axis - 1)).expand(flat.shape)
    name = {"mul": "prod", "max": "amax", "min": "amin"}[reduction]
    return x.scatter_reduce(axis, along, flat, name)


def _resample(x: Tensor, *, axis: int, **attrs: Any) -> Tensor:
    weights = torch.tensor(matrix({"axis": axis, **attrs}).toarray(), dtype=x.dtype)
    return (x.movedim(axis, -1) @ weights.T).movedim(-1, axis)


def _cumulative(function: Callable[[Tensor, int], Tensor], identity: float) -> Function:
    def cumulative(x: Tensor, *, axis: int, exclusive: bool, reverse: bool) -> Tensor:
        ordered = x.flip(axis) if reverse else x
        if exclusive:
            start = torch.full_like(ordered.narrow(axis, 0, 1), identity)
            ordered = torch.cat([start, ordered.narrow(axis, 0, x.shape[axis] - 1)], axis)
        total = function(ordered, axis)
        return total.flip(axis) if reverse else total

    return cumulative


# reductions
def _over_one_axis(function: Callable[..., Tensor]) -> Function:
    """A function of one axis, for several: they are made one."""

    def reduced(x: Tensor, *, axes: Any) -> Tensor:
        kept = [1 if axis in axes else n for axis, n in enumerate(x.shape)]
        order = [*(axis for axis in range(x.dim()) if axis not in axes), *axes]
        last = math.prod(x.shape[axis] for axis in axes)
        rows = x.permute(order).reshape(-1, last) if x.numel() else x.permute(order).reshape(math.prod(kept), last)
        return function(rows).reshape(kept)

    return reduced


# networks
def _norm(x: Tensor, count: int) -> tuple[int, ...]:
    return tuple(x.shape[count:])


def _layer_norm(x: Tensor, scale: Tensor, bias: Tensor, *, axis: int, epsilon: float) -> Tensor:
    return F.layer_norm(x, x.shape[axis % x.dim() :], scale, bias, epsilon)


def _rms_norm(x: Tensor, scale: Tensor, *, axis: int, epsilon: float) -> Tensor:
    return F.rms_norm(x, x.shape[axis % x.dim() :], scale, epsilon)


def _batch_norm(
    x: Tensor, scale: Tensor, bias: Tensor, *running: Tensor, epsilon: float, momentum: float, training: bool
) -> list[Tensor]:
    mean, variance = running
    if not training:  # by its formula, through which the statistics have gradients, too
        shape = [-1 if axis == 1 else 1 for axis in range(x.dim())]
        factor = (scale * (variance + epsilon).rsqrt()).reshape(shape)
        return [(x - mean.reshape(shape)) * factor + bias.reshape(shape)]
    new_mean, new_variance = mean.detach().clone(), variance.detach().clone()
    y = F.batch_norm(x, new_mean, new_variance, scale, bias, True, momentum, epsilon)
    return [y, new_mean, new_variance]


def _attention(
    *operands: Tensor,
    scale: float,
    causal: bool,
    softcap: float = 0.0,
    dropout: float = 0.0,
    heads_inside: bool = False,
) -> Tensor:
    q, k, v, *masks = operands
    if heads_inside:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    assert not softcap, "PyTorch's attention has none"
    rows, columns = q.shape[-2], k.shape[-2]
    total = torch.zeros(rows, columns, dtype=q.dtype)
    if causal:
        ahead = torch.ones(rows, columns, dtype=torch.bool).triu(1 + columns - rows)
        total = total.masked_fill(ahead, -math.inf)
    for mask in masks:
        hidden = torch.where(mask, 0.0, -math.inf) if mask.dtype is torch.bool else mask
        total = total + hidden
    y = F.scaled_dot_product_attention(q, k, v, total, scale=scale, enable_gqa=True)
    return y.transpose(1, 2) if heads_inside else y


def _cross_entropy(
    logits: Tensor, labels: Tensor, weight: Tensor | None = None, *, label_smoothing: float, ignore_index: int
) -> Tensor:
    return F.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), weight, ignore_index=ignore_index,
        reduction="none", label_smoothing=label_smoothing,
    ).reshape(labels.shape)  # fmt: skip


def _kl(student: Tensor, teacher: Tensor, *, temperature: float) -> Tensor:
    student, teacher = (F.log_softmax(x / temperature, -1) for x in (student, teacher.detach()))
    return F.kl_div(student, teacher, reduction="none", log_target=True).sum(-1) * temperature**2


def _bce_with_logits(x: Tensor, t: Tensor, *weight: Tensor) -> Tensor:
    factor = weight[0].detach() if weight else None
    return F.binary_cross_entropy_with_logits(x, t, reduction="none", pos_weight=factor)


def _clamp(x: Tensor, *bounds: Tensor, lo: float = -math.inf, hi: float = math.inf) -> Tensor:
    if bounds:
        return torch.clamp(x, *bounds)
    return torch.clamp(x, None if lo == -math.inf else lo, None if hi == math.inf else hi)


def _clip(x: Tensor, *, lo: float, hi: float) -> Tensor:
    """relu where there is no upper bound, hardtanh with both; where there is no lower one, relu from the other side."""
    if hi == math.inf:
        return F.relu(x - lo) + lo if lo else F.relu(x)
    return hi - F.relu(hi - x) if lo == -math.inf else F.hardtanh(x, lo, hi)


FUNCTIONS: dict[str, Function] = {
    **{name: getattr(torch, name) for name in ("neg", "abs", "sign", "exp", "log", "sqrt", "rsqrt", "reciprocal")},
    **{name: getattr(torch, name) for name in ("sin", "cos", "tanh", "erf", "sigmoid", "floor", "ceil", "round")},
    **{name: getattr(torch, name) for name in ("atan", "expm1", "log1p", "asin", "acos", "asinh", "acosh", "atanh")},
    **{name: getattr(torch, name) for name in ("add", "sub", "mul", "div", "maximum", "minimum", "pow", "where")},
    **{name: getattr(torch, name) for name in ("xlogy", "sinc", "logit", "atan2", "lgamma", "digamma", "erfinv")},
    "mod": torch.remainder,
    "clip": _clip,
    "clamp": _clamp,
    "log_add_exp": torch.logaddexp,
    "entropy": torch.special.entr,
    "reduce_sum": lambda x, axes: x.sum(axes, keepdim=True),
    "reduce_max": lambda x, axes: x.amax(axes, keepdim=True),
    "reduce_min": lambda x, axes: x.amin(axes, keepdim=True),
    "reduce_prod": _over_one_axis(lambda rows: rows.prod(1)),
    "first_maximum": _over_one_axis(lambda rows: rows.max(1).values),
    "first_minimum": _over_one_axis(lambda rows: rows.min(1).values),
    "log_sum_exp": lambda x, axes: torch.logsumexp(x, axes, keepdim=True),
    "l2_norm": lambda x, axes: torch.linalg.vector_norm(x, 2, axes, keepdim=True),
    "power_norm": lambda x, axes, p: torch.linalg.vector_norm(x, p, axes, keepdim=True),
    "standard_deviation": lambda x, axes, correction: torch.std(x, axes, correction=correction, keepdim=True),
    "cumsum": _cumulative(torch.cumsum, 0.0),
    "cumprod": _cumulative(torch.cumprod, 1.0),
    "reshape": lambda x, shape, **_: x.reshape(shape),
    "transpose": lambda x, perm: x.permute(perm),
    "broadcast_to": lambda x, shape: x.broadcast_to(shape),
    "slice": _slice,
    "pad": _pad,
    "concat": lambda *parts, axis: torch.cat(parts, axis),
    "split": lambda x, axis, sizes: x.split(sizes, axis),
    "gather": _gather,
    "scatter_add": _scatter_add,
    "scatter_set": _scatter_set,
    "scatter_reduce": _scatter_reduce,
    "resample": _resample,
    "matmul": lambda a, b, trans_a, trans_b: (a.mT if trans_a else a) @ (b.mT if trans_b else b),
    "conv2d": _conv2d,
    "conv2d_dx": _conv2d_dx,
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "softmax": lambda x, axis: F.softmax(x, axis),
    "log_softmax": lambda x, axis: F.log_softmax(x, axis),
    "masked_softmax": lambda x, axis: torch.ops.aten._safe_softmax(x, axis),
    "attention": _attention,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "batch_norm": _batch_norm,
    "gelu": lambda x, approximate: F.gelu(x, approximate=approximate),
    "silu": F.silu,
    "softplus": F.softplus,
    "dropout": lambda x, **_: x,
    "stop_gradient": lambda x: x.detach(),
    "cross_entropy": _cross_entropy,
    "kl_divergence": _kl,
    "squared_error": lambda a, b: F.mse_loss(a, b, reduction="none"),
    "absolute_error": lambda a, b: F.l1_loss(a, b, reduction="none"),
    "huber_error": lambda a, b, delta: F.huber_loss(a, b.detach(), reduction="none", delta=delta),
    "bce_with_logits": _bce_with_logits,
    "binary_cross_entropy": lambda p, t: F.binary_cross_entropy(p, t, reduction="none"),
}
"""What each operator with a floating-point output is in PyTorch. A target whose gradient we leave out is detached."""
