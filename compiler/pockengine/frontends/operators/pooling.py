"""Max and average pooling."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import Value
from .contraction import as_images, lift, restore, window
from .registry import NodeContext, Operand, converts


@converts("MaxPool")
def max_pool(c: NodeContext) -> Sequence[Operand]:
    if len(c.node.output) > 1 and c.node.output[1]:
        raise c.unsupported("the output of indices")
    x = c.value(0)
    kernel = c.attr("kernel_shape", ())
    geometry = _with_ceil(c, x, kernel, window(c, x, kernel))
    images = as_images(c, x)
    y = c.e.op("max_pool", images, kernel=_square(kernel), **lift(geometry), layout="NCHW")
    return [restore(c.e, y, x.type.rank)]


@converts("AveragePool")
def average_pool(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    kernel = c.attr("kernel_shape", ())
    plain = window(c, x, kernel)
    geometry = _with_ceil(c, x, kernel, plain)
    counted = bool(c.attr("count_include_pad", 0)) and any(geometry["pad"])
    if counted and geometry["pad"] != plain["pad"]:
        raise c.unsupported("count_include_pad together with ceil_mode")
    if any(d != 1 for d in geometry["dilation"]):
        raise c.unsupported("dilated average pooling")
    lifted = lift(geometry)
    y = c.e.op(
        "avg_pool",
        as_images(c, x),
        kernel=_square(kernel),
        stride=lifted["stride"],
        pad=lifted["pad"],
        layout="NCHW",
        count_include_pad=counted,
    )
    return [restore(c.e, y, x.type.rank)]


def _square(kernel: Sequence[int]) -> tuple[int, ...]:
    return tuple(kernel) if len(kernel) == 2 else (1, *kernel)


def _with_ceil(
    c: NodeContext, x: Value, kernel: Sequence[int], geometry: dict[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """`ceil_mode` as extra padding at the end; a window that would start in that padding is left out, as in PyTorch."""
    if not c.attr("ceil_mode", 0):
        return geometry
    rank = len(kernel)
    pads = list(geometry["pad"])
    for axis, size in enumerate(x.type.shape[2:]):
        step, reach = geometry["stride"][axis], (kernel[axis] - 1) * geometry["dilation"][axis] + 1
        begin, end = pads[axis], pads[rank + axis]
        windows = -(-(size + begin + end - reach) // step) + 1
        if (windows - 1) * step >= size + begin:
            windows -= 1
        pads[rank + axis] = max(end, (windows - 1) * step + reach - size - begin)
    return {**geometry, "pad": tuple(pads)}
