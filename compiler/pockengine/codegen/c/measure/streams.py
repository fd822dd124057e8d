"""How fast threads read and write each level of memory, by loops over arrays that fit into no nearer one."""

from __future__ import annotations

from dataclasses import dataclass

from ....plan.program import Kernel
from ....targets import Target
from ....targets.machine import Cache, caches
from ..contraction import microkernel
from ..emit.source import SIGNATURE, Code, kernel

MEMORY = "DRAM"
"""The name of what lies behind the caches; those are `L1`, `L2`, …"""
_MEMORY_BYTES = (64 << 20, 1 << 30)
"""The least and the most of an array that is to lie there."""
_MOVED = 32 << 20
"""Bytes that a thread reads or writes in one run, in the nearest caches: a tenth of a millisecond."""
_WINDOW = 4 << 20
"""Bytes of a larger array that it goes through in one run, and in the next one through those behind them."""
_UNROLLED = 8
"""Vectors at a time: as many sums as a core can have under way."""
_LINE = 64


@dataclass(frozen=True)
class Level:
    """What some threads together have of one level: its bytes, or None for the memory behind the caches."""

    name: str
    nbytes: int | None


@dataclass(frozen=True)
class Stream:
    """A loop over an array, cut into one part for each thread, that moves so many bytes."""

    made: Kernel
    moved: int


def levels(target: Target, threads: int) -> list[Level]:
    """The levels of this machine's memory, the nearest first. A cache counts once for each group of cores that share
    one, as far as there are threads for them."""
    found = caches() or (Cache(1, target.l1_bytes, 1), Cache(2, target.l2_bytes, 1))
    known = [Level(f"L{cache.level}", cache.nbytes * -(-threads // cache.cores)) for cache in found]
    return [*known, Level(MEMORY, None)]


def array_bytes(found: list[Level], index: int, target: Target) -> int:
    """The array for one of these levels: a quarter of it, but more than twice what lies before it."""
    own, nearer = found[index].nbytes, (found[index - 1].nbytes or 0) if index else 0
    if own is not None:
        return min(own, max(2 * nearer, own // 4))
    least, most = _MEMORY_BYTES
    return min(max(4 * nearer, least), most, target.ram_bytes // 16)


def streams(target: Target, nbytes: int, threads: int) -> list[Stream]:
    """Reading, copying and updating in place, of which one is quickest: a copy also reads what it writes over, and an
    update finds there what it writes."""
    lanes = target.vector_bytes // 4
    step = _UNROLLED * max(target.vector_bytes, _LINE)
    part = max(1, nbytes // threads // step // 2) * step  # bytes of half of a thread's share
    ways = {
        "read": (2 * part, "sum{j} += *(const vec *)(own + i + {at});", 1),
        "copy": (part, "*(vec *)(own + {half} + i + {at}) = *(const vec *)(own + i + {at}) * 0.5f;", 2),
        "update": (2 * part, "*(vec *)(own + i + {at}) *= 0.5f;", 2),
    }
    found = []
    for name, (size, text, each) in ways.items():
        window = min(size, _WINDOW)
        passes = max(1, _MOVED // window) if window == size else 1
        made = _loop(name, text, _Walk(2 * part, size, window, passes), lanes)
        found.append(Stream(made, window * each * passes * threads))
    return found


@dataclass(frozen=True)
class _Walk:
    """How a thread goes through its `share` of the array, all in bytes: over the first `size` of it, in each run over
    the next `window`, so many `passes`."""

    share: int
    size: int
    window: int
    passes: int


def _loop(name: str, text: str, walk: _Walk, lanes: int) -> Kernel:
    """The numbers are NaN, which no arithmetic makes slow; there is arithmetic so that no library call takes the loop's
    place. Behind the array each thread keeps which window is next, at first all bits set."""
    code = Code()
    code.line(microkernel.vector_type(lanes))
    with code.block(SIGNATURE):
        code.line(f"float *const own = (float *)arg[1] + (ptrdiff_t)task * {walk.share // 4};")
        code.line(f"int64_t *const next = (int64_t *)((char *)arg[1] + (ptrdiff_t)tasks * {walk.share}) + task * 8;")
        code.line(f"const int64_t at = *next >= 0 && *next < {walk.size // walk.window} ? *next : 0;")
        code.line("*next = at + 1;")
        sums = [f"sum{j}" for j in range(_UNROLLED)]
        code.line(f"vec {', '.join(f'{one} = {{0}}' for one in sums)};")
        code.line(f"const ptrdiff_t first = (ptrdiff_t)at * {walk.window // 4}, last = first + {walk.window // 4};")
        with (
            code.loop("pass", walk.passes),
            code.block(f"for (ptrdiff_t i = first; i < last; i += {_UNROLLED * lanes})"),
        ):
            for j in range(_UNROLLED):
                code.line(text.format(j=j, at=j * lanes, half=walk.share // 8))
        code.line(f"const vec total = {' + '.join(sums)};")
        code.line('__asm__ volatile("" : : "m"(total) : "memory");')
        code.line("if (task == 0)")
        code.line("    *(float *)arg[0] = total[0];")
    return kernel(name, f"{name} {walk.window} of {walk.size} bytes a thread {walk.passes} times", code.text())
