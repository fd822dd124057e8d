"""How kernels cut up scratch memory: each part takes whole cache lines, so that threads do not share one."""

from __future__ import annotations

LINE_BYTES = 64


def aligned(nbytes: int) -> int:
    """Bytes that a part takes."""
    return -(-nbytes // LINE_BYTES) * LINE_BYTES
