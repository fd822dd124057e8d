"""Windows that slide over the spatial axes of a tensor [batch, channels, *spatial], for convolutions and pooling.

The primitives of the IR slide over images; a signal is an image of height 1, and operators over volumes are decomposed
by their translations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...errors import ModelError
from ...ir import Array, Value
from ...ops import Emitter
from .registry import NodeContext

Ints = tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """One entry per spatial axis; `low` and `high` are the padding before and after."""

    kernel: Ints
    stride: Ints
    dilation: Ints
    low: Ints
    high: Ints

    @classmethod
    def of(cls, c: NodeContext, sizes: Sequence[int], kernel: Sequence[int]) -> Window:
        """The node's window over axes of these sizes, `auto_pad` worked out."""
        rank = len(kernel)
        stride = tuple(c.attr("strides", ())) or (1,) * rank
        dilation = tuple(c.attr("dilations", ())) or (1,) * rank
        pads = tuple(c.attr("pads", ())) or (0,) * (2 * rank)
        auto = c.attr("auto_pad", "NOTSET")
        if not 1 <= rank <= 3:
            raise c.unsupported(f"a window over {rank} axes")
        if not rank == len(sizes) == len(stride) == len(dilation) == len(pads) // 2 or min(*stride, *dilation) < 1:
            raise ModelError(f"{c.where} has strides, dilations or pads that do not fit its {len(sizes)} spatial axes")
        window = cls(tuple(kernel), stride, dilation, pads[:rank], pads[rank:])
        if auto == "VALID":
            return replace(window, low=(0,) * rank, high=(0,) * rank)
        if auto not in ("SAME_UPPER", "SAME_LOWER"):
            return window
        totals = [
            max(0, (-(-size // step) - 1) * step + reach - size)
            for size, step, reach in zip(sizes, stride, window.reach, strict=True)
        ]
        smaller, larger = tuple(t // 2 for t in totals), tuple(t - t // 2 for t in totals)
        low, high = (smaller, larger) if auto == "SAME_UPPER" else (larger, smaller)
        return replace(window, low=low, high=high)

    @property
    def rank(self) -> int:
        return len(self.kernel)

    @property
    def reach(self) -> Ints:
        """Elements from the first tap to the last one, both included."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True))

    @property
    def padded(self) -> bool:
        return any((*self.low, *self.high))

    def output(self, sizes: Sequence[int]) -> Ints:
        """Positions of the window along axes of these sizes."""
        parts = zip(sizes, self.low, self.high, self.reach, self.stride, strict=True)
        return tuple((size + low + high - reach) // step + 1 for size, low, high, reach, step in parts)

    def part(self, axes: slice) -> Window:
        """The window along some of the axes."""
        return Window(*(getattr(self, name)[axes] for name in ("kernel", "stride", "dilation", "low", "high")))

    def as_image(self) -> Window:
        """A window over one axis as one over an image of height 1."""
        if self.rank == 2:
            return self
        return Window((1, *self.kernel), (1, *self.stride), (1, *self.dilation), (0, *self.low), (0, *self.high))

    def geometry(self) -> dict[str, Ints]:
        """stride, dilation and pad of an image primitive."""
        return {"stride": self.stride, "dilation": self.dilation, "pad": (*self.low, *self.high)}

    def with_ceil(self, sizes: Sequence[int]) -> Window:
        """`ceil_mode` as extra padding at the end; a window that would start in that padding is left out, as in
        PyTorch."""
        high = []
        for size, low, end, reach, step in zip(sizes, self.low, self.high, self.reach, self.stride, strict=True):
            count = -(-(size + low + end - reach) // step) + 1
            count -= (count - 1) * step >= size + low
            high.append(max(end, (count - 1) * step + reach - size - low))
        return replace(self, high=tuple(high))._within(sizes, self.high)

    def _within(self, sizes: Sequence[int], own: Ints) -> Window:
        """A single position of a window that is wider than the axis covers all of it: padding as wide as the window
        (EfficientNet's pooling has 2560 for a few pixels) would be made for nothing.

        own  the model's own padding at the end"""
        axes, count = range(self.rank), self.output(sizes)
        bare = [not (self.low[i] or own[i]) and self.dilation[i] == 1 for i in axes]
        wide = [bare[i] and count[i] == 1 and self.kernel[i] > sizes[i] for i in axes]
        return replace(
            self,
            kernel=tuple(sizes[i] if wide[i] else self.kernel[i] for i in axes),
            stride=tuple(1 if wide[i] else self.stride[i] for i in axes),
            high=tuple(0 if wide[i] else self.high[i] for i in axes),
        )

    def positions(self, sizes: Sequence[int]) -> tuple[Array, Array]:
        """Flat position in a tensor of these sizes that each tap of each window reads, and whether it is a real one:
        two arrays [windows, taps]. In padding the flat position means nothing."""
        flat: Array = np.zeros((1, 1), np.int64)
        real: Array = np.ones((1, 1), bool)
        for axis, count in enumerate(self.output(sizes)):
            start = np.arange(count) * self.stride[axis] - self.low[axis]
            place = start[:, None] + np.arange(self.kernel[axis]) * self.dilation[axis]
            inside = (place >= 0) & (place < sizes[axis])
            flat = _outer(flat * sizes[axis], place, np.add)
            real = _outer(real, inside, np.logical_and)
        return flat, real


def _outer(a: Array, b: Array, combine: np.ufunc) -> Array:
    """combine([i, k], [j, l]) -> [i * j, k * l]."""
    both: Array = combine(a[:, None, :, None], b[None, :, None, :])
    return both.reshape(a.shape[0] * b.shape[0], a.shape[1] * b.shape[1])


def as_image(e: Emitter, x: Value) -> Value:
    """A signal [n, c, t] as an image of height 1; images are left alone."""
    return e.reshape(x, (*x.type.shape[:2], 1, x.type.shape[2])) if x.type.rank == 3 else x


def as_signal(e: Emitter, y: Value, rank: int) -> Value:
    """Undo `as_image` for a tensor that had `rank` axes."""
    return e.reshape(y, (*y.type.shape[:2], y.type.shape[3])) if rank == 3 else y


def pad_spatial(e: Emitter, x: Value, low: Sequence[int], high: Sequence[int], gap: Sequence[int] = ()) -> Value:
    """Zeros around the spatial axes, and `gap` zeros between their elements."""
    gap = tuple(gap) or (0,) * len(low)
    if not any((*low, *high, *gap)):
        return x
    return e.op("pad", x, low=(0, 0, *low), high=(0, 0, *high), interior=(0, 0, *gap), value=0.0)


def crop(e: Emitter, x: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
    """x[..., start:stop:step, ...] along one axis."""
    rank = x.type.rank
    starts, stops, steps = [0] * rank, list(x.type.shape), [1] * rank
    starts[axis], stops[axis], steps[axis] = start, stop, step
    if (start, stop, step) == (0, x.type.shape[axis], 1):
        return x
    return e.op("slice", x, starts=tuple(starts), stops=tuple(stops), steps=tuple(steps))


def spatial_size(x: Value) -> int:
    return math.prod(x.type.shape[2:])
