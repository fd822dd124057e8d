"""How quick a GPU is: what the choice between kernels' shapes and the cost of kernels are made of.

Figures of one multiprocessor that all GPUs have in common are those of NVIDIA's from Ampere to Hopper, as published
measurements give them; they are for comparisons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...plan.program import Call, Grid
from ...targets import Gpu, Target

USUAL = Gpu("", multiprocessors=4, clock_mhz=1000, f32_per_cycle=128, bf16_per_cycle=128, memory_mb_per_s=32_000)
"""A small GPU with everything that kernels may use, where a target says nothing of its own."""
START_SECONDS = 4e-6
"""From the end of a kernel to the first result of the next."""
CACHE_BYTES = 40
"""That a multiprocessor gets from the GPU's cache in a cycle, of 5,120 for all of them (NVIDIA, "A100 Tensor Core GPU
architecture", 2020): 47 each where there are 108, 39 where there are 132."""
LATENCY = 600
"""Cycles from reading a number in the GPU's memory to having it."""
AHEAD = 4
"""Reads of a thread that are on their way together: compilers unroll loops so far."""
RESIDENT = 2048
"""Threads that a multiprocessor has at a time."""
REGISTERS, REGISTERS_AT_ONCE = 65536, 8
"""Of a multiprocessor; a thread has a multiple of these (CUDA C++ programming guide 12.9, "Technical
specifications")."""
WARP = 32
"""Threads that go together; a multiprocessor reads so many words of shared memory in a cycle."""


def gpu_of(target: Target) -> Gpu:
    """A target's GPU, or the usual one."""
    return target.gpu or USUAL


def start_cycles(gpu: Gpu) -> float:
    """What a kernel more takes, however little it does."""
    return START_SECONDS * gpu.clock_mhz * 1e6


def call_cycles(call: Call, units: str | None, gpu: Gpu) -> float:
    """A roofline: arithmetic on the units that it uses (`units`: the format of matrix units), the memory's bandwidth,
    and what its template says. The multiprocessor with the most blocks is waited for; so is memory, as often as the
    threads do."""
    assert isinstance(call.launch, Grid)
    rate = gpu.flops_per_cycle if units is None else gpu.matrix_flops_per_cycle(units)
    pieces = max(call.launch.blocks, call.launch.pieces)
    most = busiest(pieces, gpu)
    idle = most * gpu.multiprocessors / max(1, pieces)
    cached = gpu.multiprocessors * CACHE_BYTES
    work = max(call.flops * idle / rate, call.bytes * idle / cached, call.bytes / gpu.bytes_per_cycle)
    work = max(work, call.launch.from_host / gpu.link_bytes_per_cycle, call.launch.cycles)
    waves = -(-most * call.launch.threads // RESIDENT)
    return start_cycles(gpu) + max(work, (call.launch.trips - 1) * waves * LATENCY)


def resident(registers: int, threads: int) -> int:
    """Blocks of so many threads that a multiprocessor has registers for."""
    return REGISTERS // (-(-registers // REGISTERS_AT_ONCE) * REGISTERS_AT_ONCE * threads)


def busiest(blocks: int, gpu: Gpu) -> int:
    """Blocks that the multiprocessor with the most of them has."""
    return -(-blocks // gpu.multiprocessors)


@dataclass(frozen=True)
class Pace:
    """How a block goes along the sums of a product, one step after the other.

    deep      terms of each sum in a step
    work      cycles that a step keeps a multiprocessor busy
    latency   cycles that a step takes at least, while other blocks may work
    resident  blocks that a multiprocessor has at a time"""

    deep: int
    work: float
    latency: float
    resident: int

    def cycles(self, blocks: int, steps: int, gpu: Gpu) -> float:
        """Until all blocks have gone so many steps: wave by wave, on the busiest multiprocessor."""
        waves, rest = divmod(busiest(blocks, gpu), self.resident)
        wave = max(self.resident * self.work, self.latency)
        return steps * (waves * wave + (max(rest * self.work, self.latency) if rest else 0.0))


@dataclass(frozen=True)
class Tail:
    """The last of a product's tiles, for which not all multiprocessors are wanted.

    first    tiles before them
    tiles    their number
    rows     of a tile
    columns  of a tile"""

    first: int
    tiles: int
    rows: int
    columns: int

    @property
    def size(self) -> int:
        """Results."""
        return self.tiles * self.rows * self.columns


@dataclass(frozen=True)
class Cut:
    """The sums of a product in `parts`, each of `terms` terms (the last one of what is left), which other blocks make;
    of its `tail` alone, if there is one. `cycles` is what all of it takes, `making` without adding up parts."""

    parts: int
    terms: int
    cycles: float
    tail: Tail | None = None
    making: float = 0.0


LEAST_STEPS = 4
"""Of a part: with fewer, a block has hardly begun when it ends."""
MOST_PARTS = 256
F32_BYTES = 4


def cuts(blocks: int, terms: int, pace: Pace, result_bytes: int, limit: int, gpu: Gpu) -> list[Cut]:
    """The ways to cut sums of so many terms, made by so many blocks. Parts of results, which are `result_bytes` each,
    are written to at most `limit` bytes, and added up by one kernel more."""
    steps, ways = max(1, -(-terms // pace.deep)), []
    for parts, each in _proposals(steps):
        if parts > 1 and parts * result_bytes > limit:
            break
        cycles = making = pace.cycles(blocks * parts, each, gpu)
        if parts > 1:
            cycles += start_cycles(gpu) + 2 * parts * result_bytes / gpu.bytes_per_cycle
        ways.append(Cut(parts, each * pace.deep, cycles, making=making))
    return ways


def cut(blocks: int, terms: int, pace: Pace, result_bytes: int, limit: int, gpu: Gpu) -> Cut:
    """The quickest of `cuts`."""
    return min(cuts(blocks, terms, pace, result_bytes, limit, gpu), key=lambda way: way.cycles)


def tails(tiles: int, turn: int, shape: tuple[int, int], terms: int, pace: Pace, limit: int, gpu: Gpu) -> list[Cut]:
    """The ways to cut the sums of the last tiles, those that are left when `turn` tiles at a time are made: a tile has
    `shape` rows and columns, and takes as many multiprocessors as there are for one. Parts of their f32 results are
    written to at most `limit` bytes, and added up by one kernel more."""
    rest, steps, ways = tiles % turn, max(1, -(-terms // pace.deep)), []
    tail = Tail(tiles - rest, rest, *shape)
    each_takes = gpu.multiprocessors // turn
    for parts, each in _proposals(steps) if rest and tail.first else ():
        nbytes = parts * tail.size * F32_BYTES
        if parts == 1 or rest * parts > turn or nbytes > limit:
            continue
        making = pace.cycles(tail.first * each_takes, steps, gpu) + pace.cycles(rest * parts * each_takes, each, gpu)
        cycles = making + start_cycles(gpu) + 2 * nbytes / gpu.bytes_per_cycle
        ways.append(Cut(parts, each * pace.deep, cycles, tail, making))
    return ways


def _proposals(steps: int) -> Iterator[tuple[int, int]]:
    """About 1, 2, 3, 4, 6, 8, 12, … parts, and the steps of each."""
    power, most = 2, min(MOST_PARTS, steps // LEAST_STEPS)
    wanted = [1]
    while power <= most:
        wanted += [power, power + power // 2]
        power *= 2
    for parts in wanted:
        if parts == 1 or parts <= steps // LEAST_STEPS:
            each = -(-steps // parts)
            yield -(-steps // each), each
