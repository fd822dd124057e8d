"""Arrays over memory-mapped files: nothing is read before somebody looks at it, and what was read can be given up."""

from __future__ import annotations

import mmap

import numpy as np

from ..ir import Array

_PAGE = mmap.ALLOCATIONGRANULARITY


def let_go(array: Array) -> None:
    """Give up the memory that reading a mapped array took; its file is read again when somebody looks. Does nothing
    for arrays that are not mapped, or that can be written: what was written would be lost."""
    owner: object = array
    while isinstance(owner, np.ndarray | memoryview):
        owner = owner.obj if isinstance(owner, memoryview) else owner.base
    if not isinstance(owner, mmap.mmap) or array.flags.writeable or not array.flags.c_contiguous or not array.nbytes:
        return
    start = array.ctypes.data - np.frombuffer(owner, np.uint8).ctypes.data
    first = start - start % _PAGE
    owner.madvise(mmap.MADV_DONTNEED, first, start + array.nbytes - first)
