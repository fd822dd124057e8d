"""Matrix products and convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...errors import ModelError
from ...ir import Value
from ...ops import Emitter
from .registry import NodeContext, Operand, converts


@converts("MatMul")
def matmul(c: NodeContext) -> Sequence[Operand]:
    """numpy's rule: a vector operand gets an axis of size 1, which is dropped again."""
    a, b = c.value(0), c.value(1)
    left = c.e.reshape(a, (1, *a.type.shape)) if a.type.rank == 1 else a
    right = c.e.reshape(b, (*b.type.shape, 1)) if b.type.rank == 1 else b
    if left.type.shape[-1] != right.type.shape[-2]:
        raise ModelError(f"{c.where} cannot multiply {list(a.type.shape)} by {list(b.type.shape)}")
    product = c.e.matmul(left, right)
    shape = list(product.type.shape)
    if b.type.rank == 1:
        shape.pop(-1)
    if a.type.rank == 1:
        shape.pop(-1 if b.type.rank == 1 else -2)
    return [c.e.reshape(product, shape)]


@converts("Gemm")
def gemm(c: NodeContext) -> Sequence[Operand]:
    product = c.e.matmul(c.value(0), c.value(1), bool(c.attr("transA", 0)), bool(c.attr("transB", 0)))
    alpha, beta, addend = c.attr("alpha", 1.0), c.attr("beta", 1.0), c.optional(2)
    if alpha != 1.0:
        product = c.e.mul(product, alpha)
    if addend is None or beta == 0.0:
        return [product]
    return [c.e.add(product, addend if beta == 1.0 else c.e.mul(addend, beta))]


def window(c: NodeContext, x: Value, kernel: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """stride, dilation and pad of a convolution or pooling over the last two axes, `auto_pad` worked out."""
    rank = len(kernel)
    if rank > 2:
        raise c.unsupported(f"a window over {rank} axes")
    stride = tuple(c.attr("strides", (1,) * rank))
    dilation = tuple(c.attr("dilations", (1,) * rank))
    auto = c.attr("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        begin, end = [], []
        for size, k, s, d in zip(x.type.shape[2:], kernel, stride, dilation, strict=True):
            total = max(0, (-(-size // s) - 1) * s + (k - 1) * d + 1 - size)
            smaller, larger = total // 2, total - total // 2
            begin.append(smaller if auto == "SAME_UPPER" else larger)
            end.append(larger if auto == "SAME_UPPER" else smaller)
        pads = (*begin, *end)
    else:
        pads = (0,) * (2 * rank) if auto == "VALID" else tuple(c.attr("pads", (0,) * (2 * rank)))
    return {"stride": stride, "dilation": dilation, "pad": pads}


def as_images(c: NodeContext, x: Value) -> Value:
    """Rank 4: a signal `[n, c, t]` becomes an image of height 1; volumes are refused."""
    if x.type.rank == 3:
        n, channels, time = x.type.shape
        return c.e.reshape(x, (n, channels, 1, time))
    if x.type.rank != 4:
        raise c.unsupported(f"a tensor of rank {x.type.rank}")
    return x


def lift(geometry: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Geometry of a signal as that of an image of height 1."""
    if len(geometry["stride"]) == 2:
        return geometry
    low, high = geometry["pad"]
    return {"stride": (1, *geometry["stride"]), "dilation": (1, *geometry["dilation"]), "pad": (0, low, 0, high)}


def restore(e: Emitter, y: Value, rank: int) -> Value:
    """Undo `as_images`."""
    return y if rank == 4 else e.reshape(y, (y.type.shape[0], y.type.shape[1], y.type.shape[3]))


def _add_bias(c: NodeContext, y: Value) -> Value:
    """A bias of zeros, which exporters write where there is none, is left out."""
    zeros = c.constant(2)
    if not c.has(2) or (zeros is not None and not zeros.any()):
        return y
    bias = c.value(2)
    return c.e.add(y, c.e.reshape(bias, (bias.type.size, *[1] * (y.type.rank - 2))))


@converts("Conv")
def conv(c: NodeContext) -> Sequence[Operand]:
    x, w = c.value(0), c.value(1)
    groups = c.attr("group", 1)
    if x.type.shape[1] != w.type.shape[1] * groups:
        raise ModelError(f"{c.where} has {x.type.shape[1]} input channels, its weight wants {w.type.shape[1] * groups}")
    geometry = lift(window(c, x, w.type.shape[2:]))
    images, kernel = as_images(c, x), as_images(c, w)
    y = c.e.op("conv2d", images, kernel, **geometry, groups=groups, layout="NCHW")
    return [_add_bias(c, restore(c.e, y, x.type.rank))]


@converts("ConvTranspose")
def conv_transpose(c: NodeContext) -> Sequence[Operand]:
    """The input gradient of a convolution whose weight is `[in, out / groups, kh, kw]`."""
    x, w = c.value(0), c.value(1)
    rank = x.type.rank - 2
    if rank > 2:
        raise c.unsupported(f"a tensor of rank {x.type.rank}")
    stride, dilation = c.attr("strides", (1,) * rank), c.attr("dilations", (1,) * rank)
    extra = c.attr("output_padding", (0,) * rank)
    full = [
        (n - 1) * s + (k - 1) * d + 1 + o
        for n, s, k, d, o in zip(x.type.shape[2:], stride, w.type.shape[2:], dilation, extra, strict=True)
    ]
    pads = _transpose_pads(c, full, rank)
    # An output larger than the windows reach is filled up with zeros.
    grown = [max(0, -p) for p in pads]
    pads = [max(0, p) for p in pads]
    size = tuple(f - pads[axis] - pads[rank + axis] for axis, f in enumerate(full))
    geometry = lift({"stride": tuple(stride), "dilation": tuple(dilation), "pad": tuple(pads)})
    y = c.e.op(
        "conv2d_dx",
        as_images(c, x),
        as_images(c, w),
        **geometry,
        groups=c.attr("group", 1),
        layout="NCHW",
        size=size if rank == 2 else (1, *size),
    )
    y = restore(c.e, y, x.type.rank)
    if any(grown):
        low, high = (0, 0, *grown[:rank]), (0, 0, *grown[rank:])
        y = c.e.op("pad", y, low=low, high=high, interior=(0,) * (rank + 2), value=0.0)
    return [_add_bias(c, y)]


def _transpose_pads(c: NodeContext, full: list[int], rank: int) -> list[int]:
    wanted = c.attr("output_shape", ())
    auto = c.attr("auto_pad", "NOTSET")
    if wanted or auto in ("SAME_UPPER", "SAME_LOWER"):
        stride = c.attr("strides", (1,) * rank)
        sizes = wanted[-rank:] if wanted else [n * s for n, s in zip(c.shape(0)[2:], stride, strict=True)]
        totals = [f - n for f, n in zip(full, sizes, strict=True)]
        smaller, larger = [t // 2 for t in totals], [t - t // 2 for t in totals]
        return [*smaller, *larger] if auto == "SAME_UPPER" else [*larger, *smaller]
    return list(c.attr("pads", (0,) * (2 * rank)))


@converts("Einsum")
def einsum(c: NodeContext) -> Sequence[Operand]:
    """Two operands, each letter once in each: transposed to batched matrices and multiplied."""
    equation = str(c.attr("equation", "")).replace(" ", "")
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    if not arrow or "." in equation or len(terms) != 2 or any(len(set(t)) != len(t) for t in (*terms, result)):
        raise c.unsupported(f"the equation '{equation}'")
    a, b = c.value(0), c.value(1)
    sizes = dict(zip(terms[0], a.type.shape, strict=True)) | dict(zip(terms[1], b.type.shape, strict=True))
    a, first = _sum_out(c.e, a, terms[0], set(terms[1]) | set(result))
    b, second = _sum_out(c.e, b, terms[1], set(terms[0]) | set(result))
    batch = [letter for letter in first if letter in second and letter in result]
    summed = [letter for letter in first if letter in second and letter not in result]
    rows = [letter for letter in first if letter not in second]
    columns = [letter for letter in second if letter not in first]
    lead = [sizes[letter] for letter in batch]
    m, k, n = (math.prod(sizes[letter] for letter in group) for group in (rows, summed, columns))
    a = c.e.reshape(c.e.transpose(a, [first.index(i) for i in (*batch, *rows, *summed)]), (*lead, m, k))
    b = c.e.reshape(c.e.transpose(b, [second.index(i) for i in (*batch, *summed, *columns)]), (*lead, k, n))
    order = [*batch, *rows, *columns]
    product = c.e.reshape(c.e.matmul(a, b), [sizes[letter] for letter in order])
    return [c.e.transpose(product, [order.index(letter) for letter in result])]


def _sum_out(e: Emitter, x: Value, letters: str, kept: set[str]) -> tuple[Value, str]:
    """Sum over the letters that appear nowhere else."""
    axes = [axis for axis, letter in enumerate(letters) if letter not in kept]
    reduced = e.sum(x, axes, keepdims=False) if axes else x
    return reduced, "".join(letter for letter in letters if letter in kept)
