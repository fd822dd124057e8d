"""How an operand of a contraction lies in memory, seen along its axes: runs, windows, transposed blocks."""

from __future__ import annotations

from ...common.index_maps import Access, Axis, Contraction, Window
from ...common.indexing import collapse
from .schedule import Schedule

FEW_CHANNELS = 32
"""With fewer, the taps of a row of a window are copied in one run."""
L1_STEPS, L1_PANEL_BYTES = 256, 40 << 10
"""Steps of k whose lines of A, and the panel of B, that stay in the first-level cache."""


def contiguous(access: Access, axis: Axis) -> bool:
    """Whether neighbours along the axis's last digit are neighbours in memory."""
    if not axis:
        return False
    last = axis[-1]
    return access.strides.get(last.name, 0) == 1 and not access.touches((last,))


def window_run(access: Access, axis: Axis) -> Window | None:
    """The window whose taps, the axis's last digit but one, are with their few channels one run of memory."""
    if len(axis) < 2 or not contiguous(access, axis) or axis[-1].extent >= FEW_CHANNELS:
        return None
    taps, channels = axis[-2:]
    found = [window for window in access.windows if (taps.name, 1) in window.terms]
    one_run = len(found) == 1 and found[0].stride == channels.extent and taps.name not in access.strides
    return found[0] if one_run else None


def run_length(access: Access, axis: Axis) -> int:
    """Elements of the axis that lie one behind the other."""
    taps = axis[-2].extent if window_run(access, axis) else 1
    return axis[-1].extent * taps


def direct(access: Access, first: Axis, second: Axis) -> bool:
    """Whether an operand can be read in place: it lies there, without windows, and each axis is one loop."""
    return (
        not access.computed
        and not access.windows
        and access.linear(first) is not None
        and access.linear(second) is not None
    )


def storage_order(access: Access, across: Axis, k: Axis, whole: bool) -> Axis | None:
    """The digits of k from outermost to innermost in memory when, for each x, k is one contiguous run: then square
    blocks can be transposed in registers. An order that is not that of k itself needs all of k at once."""
    if access.windows or not k or any(digit.name not in access.strides for digit in k):
        return None
    order = tuple(sorted(k, key=lambda digit: -access.strides[digit.name]))
    if order != k and not whole:
        return None
    extents, (merged,) = collapse([digit.extent for digit in order], [access.along(order)])
    return order if len(extents) == 1 and merged == (1,) and access.linear(across) is not None else None


def far_apart(c: Contraction) -> bool:
    """Whether neighbours of A along k lie a multiple of 2 KiB apart."""
    stride = c.left.linear(c.k)
    return stride is not None and stride * 4 % 2048 == 0


def turned(c: Contraction, s: Schedule) -> bool:
    """Whether packing a block of A transposes it: where A lies along its rows and the block has more steps of k than
    stay in the first-level cache as lines."""
    along_rows = contiguous(c.left, c.m) and not contiguous(c.left, c.k)
    return s.pack_left and s.depth > L1_STEPS and along_rows and storage_order(c.left, c.k, c.m, False) is not None
