"""Matrix units of NVIDIA's Hopper GPUs, which read tiles from shared memory by themselves.

128 threads (a warpgroup) multiply 64 rows and up to 256 columns together (`wgmma`, PTX ISA 8.7, "Asynchronous
warpgroup level matrix multiply-accumulate"), while they go on. Tiles lie in lines of 128 bytes, along k or across it,
whose pieces of 16 bytes change places from line to line ("128-byte swizzling"): so they are written and read from all
banks. Tiles of 8-bit floats lie along k.
These words of GPU-C are only for languages that have such units:

    POOL_LINES                 POOL from a multiple of 1024 on, which takes up to 1024 bytes more
    TILE(first, further, on)   description of a tile that begins at `first`: along k, 8 rows of it lie `on` bytes from
                               the 8 before them; across k, 8 terms do, and 64 columns lie `further` bytes from the 64
                               before
    COPIES_SEEN                what was copied by the thread is seen by matrix units
    WGMMA_BEGIN                what the warpgroup has in registers for the products that follow is ready
    WGMMA_BF16_256(s, a, b, ta, tb)
                               begins to add to its sums `s` (4 of each 16 x 8 piece of its warp's 16 rows) the products
                               of 64 rows of tile `a` and 256 columns of tile `b`, of 16 terms; `ta`, `tb`: they lie
                               across k. WGMMA_F16_256, WGMMA_BF16_128, … likewise, WGMMA_E4M3_256 of 32 terms
    WGMMA_NEW_BF16_256(s, a, b, ta, tb)
                               the same, whatever the sums were before
    WGMMA_HELD_BF16_256(s, w, b, tb)
                               the same as the first, of rows that the warpgroup holds: the thread's words `w` (4), as
                               MMA_BF16 has them, which stay as they are until the products are made
    WGMMA_BEGUN                those that the warpgroup has begun since the last time are a group
    WGMMA_WAIT(n)              until at most n of its groups are on their way
    TURN_WAIT(i, threads)      the thread comes to turn `i`, 1 to 15, of the block, and waits until so many threads have
                               come to it
    TURN_GIVE(i, threads)      it comes, and goes on"""

from __future__ import annotations

LINE, LINES, PIECE = 128, 8, 16
"""Bytes of a line, lines until pieces lie as in the first, and bytes of a piece."""
ACROSS = 64
"""Columns of a line that lies across k."""
TERMS_BYTES = 32
"""Along k of one instruction."""
GROUP = 128
"""Threads that multiply together."""
GROUP_ROWS = 64
"""That they multiply."""
WGMMA = r"\bWGMMA_(NEW_|HELD_|)([A-Z0-9]+)_(\d+)\b"
"""Each word that begins products: its form, format and columns."""
