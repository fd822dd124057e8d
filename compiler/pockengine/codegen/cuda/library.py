"""Prints `cuBLASLt` where NVIDIA's library of products is, as the runtime finds it: a script for `said_by`."""

from __future__ import annotations

import ctypes
import os

_FILES = ("libcublasLt.so.12", "libcublasLt.so.13")


def found() -> str:
    """Its name; nothing where it is not installed."""
    named = os.environ.get("POCK_CUBLASLT")
    for file in _FILES if named is None else [named] if named else []:
        try:
            ctypes.CDLL(file)
        except OSError:
            continue
        return "cuBLASLt"
    return ""


if __name__ == "__main__":
    print(found())
