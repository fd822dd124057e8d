"""The engine of NVIDIA's Hopper GPUs that copies boxes of tensors to shared memory (TMA), and its barriers.

The threads of a block have one of two roles ("warp specialisation"). One thread of the last warpgroup begins copies of
boxes; the other warpgroups multiply them, and are never asked to copy. Two barriers of each place for a tile say that
it is full and that it is free.
These words of GPU-C are only for languages that have such an engine (PTX ISA 8.7, "cp.async.bulk.tensor", "mbarrier",
"setmaxnreg", "barrier.cluster"):

    KERNEL_OF(threads)         KERNEL, which is started with so many threads
    KERNEL_IN_PAIRS(threads)   the same, of which block 2 i and block 2 i + 1 run together
    TENSOR_MAP(name)           parameter of a kernel: how boxes of an operand are found (`Kernel.maps`)
    TENSOR_COPY(to, map, full, c...)
                               begins to copy the box at these coordinates, the innermost first, to lines of 128 bytes,
                               whose pieces change places as they do in units.py; zeros beyond the tensor. The barrier
                               `full` counts its bytes
    TENSOR_COPY_BOTH(to, map, full, c...)
                               the same to both blocks of a pair, where barriers at this place count the bytes
    MBARRIER_INIT(b, count)    the barrier `b`, eight bytes of shared memory, waits for so many arrivals in each phase
    MBARRIERS_SEEN             barriers that the thread has made ready are seen by the engine
    MBARRIER_ARRIVE(b)         the thread arrives; MBARRIER_ARRIVE_AT(b, rank): at that of block `rank` of a pair
    CLUSTER_BARRIER            BARRIER of both blocks of a pair
    MBARRIER_EXPECT(b, bytes)  the thread arrives, and so many bytes belong to this phase
    MBARRIER_WAIT(b, parity)   until the phase of this parity is over. The first one has parity 0; the one before it is
                               over
    REGISTERS_LESS(n)          each thread of the warpgroup has n registers from here on; REGISTERS_MORE(n) likewise"""

from __future__ import annotations

from ..source import Code

MOST_RANK = 5
"""Dimensions of a tensor that it reads."""
COPYING, MULTIPLYING = 40, 232
"""Registers of a thread where there are three warpgroups, one of which copies: as many in all as when the kernel
starts, 168 each (the most of 384 threads, in multiples of 8)."""


def next_stage(code: Code, stages: int) -> None:
    """Go on to the next of so many places for tiles: `parity` is that of the phase in which the place `stage` is
    filled."""
    with code.block(f"if (++stage == {stages})"):
        code.line("stage = 0;")
        code.line("parity ^= 1;")
