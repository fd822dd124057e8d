"""Products with few rows or columns, as of depthwise convolutions: some threads of a block share a result."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ....plan.program import Kernel
from ...common.index_maps import Access, Axis, Contraction, inside
from ...common.indexing import digits
from ..pace import AHEAD, LATENCY, RESIDENT, WARP, Pace
from ..source import THREADS
from .writer import Writer, guarded, is_run

LEAST = 8
"""Rows or columns from which on there are tiles."""
LONG = 64
"""Terms from which on a sum may be shared."""


@dataclass(frozen=True)
class Lanes:
    """How threads are laid out: neighbours read neighbours in memory.

    lanes    threads that share a result: each has every so many of its terms
    along_k  neighbours are of one result; else of neighbours along `fastest`
    fastest  b, m or n"""

    lanes: int
    along_k: bool
    fastest: str

    @property
    def name(self) -> str:
        """For people and for stores of choices."""
        threads = f"{self.lanes} threads" if self.lanes > 1 else "1 thread"
        return f"{threads} a result" + (", along the sum" if self.along_k else "")

    @property
    def results(self) -> int:
        """Of a block."""
        return THREADS // self.lanes

    def pace(self) -> Pace:
        """A thread reads two operands for each term."""
        return Pace(self.lanes, 2 * THREADS / WARP, LATENCY / AHEAD, RESIDENT // THREADS)


def lanes_of(part: Contraction) -> list[Lanes]:
    """The layouts whose neighbours are along the axis along which most of what is read lies in a row: one thread for
    each result, or more where sums are long. Eight neighbours still read a whole sector of 32 bytes."""
    axes = {"b": part.b, "m": part.m, "n": part.n}
    fastest = max(axes, key=lambda name: (_in_a_row(part, axes[name]), math.prod(d.extent for d in axes[name])))
    k = part.sizes()[3]
    if k >= WARP and _in_a_row(part, part.k) > _in_a_row(part, axes[fastest]):
        return [Lanes(lanes, True, fastest) for lanes in (WARP, THREADS)]
    return [Lanes(lanes, False, fastest) for lanes in ((1, 8, WARP) if k >= LONG else (1,))]


def _in_a_row(part: Contraction, axis: Axis) -> int:
    """Elements of both operands and of the result that neighbours along an axis find side by side, or share."""
    if not axis:
        return 0
    found = sum(_elements(part, one) for one in (part.left, part.right) if is_run(one, axis) or not _reads(one, axis))
    batch, m, n, _ = part.sizes()
    return found + (batch * m * n if part.result_steps.get(axis[-1].name) == 1 else 0)


def _reads(access: Access, axis: Axis) -> bool:
    """Whether an operand has elements of its own along an axis."""
    return any(access.along(axis)) or access.touches(axis)


def _elements(part: Contraction, access: Access) -> int:
    every = [digit for axis in (part.b, part.m, part.n, part.k) for digit in axis]
    return math.prod(digit.extent for digit in every if _reads(access, (digit,)))


def thin(writer: Writer, how: Lanes) -> Kernel:
    """A block has THREADS / lanes results."""
    code, (batch, m, n, _) = writer.code, writer.part.sizes()
    count, lanes, width = batch * m * n, how.lanes, how.results
    with writer.function(-(-count // width)):
        if lanes > 1:
            code.line(f"SHARED {writer.type} shares[{THREADS}];")
        if how.along_k:
            code.line(f"const int lane = THREAD % {lanes}, result = THREAD / {lanes};")
        else:
            code.line(f"const int lane = THREAD / {width}, result = THREAD % {width};")
        code.line(f"const ptrdiff_t i = (ptrdiff_t)block * {width} + result;")
        code.line(f"const ptrdiff_t last = i < {count} ? end : first;")
        _place(writer, how.fastest)
        code.line(f"{writer.type} sum = 0;")
        with code.loop("k", "last", "first + lane", lanes):
            writer.digits("k", writer.part.k)
            conditions = [*inside(writer.part.left), *inside(writer.part.right)]
            left, right = (writer.element(access) for access in (writer.part.left, writer.part.right))
            with guarded(code, conditions):
                code.line(f"sum += {left} * {right};")
        if lanes > 1:
            code.line("shares[THREAD] = sum;")
            code.line("BARRIER;")
        with code.block(f"if (lane == 0 && i < {count})"):
            if lanes > 1:
                with code.loop("p", lanes, 1):
                    code.line(f"sum += shares[THREAD + p * {1 if how.along_k else width}];")
            writer.give("sum")
    return writer.kernel("thin")


def _place(writer: Writer, fastest: str) -> None:
    """Declare b, m and n of result `i`, and their digits."""
    extents = dict(zip("bmn", writer.part.sizes(), strict=False))
    order = [*(name for name in extents if name != fastest), fastest]
    for name, text in zip(order, digits("i", [extents[name] for name in order]), strict=True):
        writer.code.line(f"const ptrdiff_t {name} = {text};")
    for name, axis in (("b", writer.part.b), ("m", writer.part.m), ("n", writer.part.n)):
        writer.digits(name, axis)
