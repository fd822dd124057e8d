"""What a program in C takes in memory beside its five blocks: machine code, tables, C library, stacks, file headers.

Known before anything is compiled, from what will be: docs/memory.md says how far it is from measured programs.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...plan.program import Call

BASE = 244_000
"""Runtime, C library, stacks of the threads and buffers: a static program without kernels."""

OF_SOURCE = 0.232
"""Bytes of machine code and of numbers in it for each character of a kernel's source."""

OF_CALL, OF_OPERAND = 56, 16
"""`sizeof(pock_call)` and `sizeof(pock_ref)`: rows of the tables."""

OF_PARAMETER = 870
"""A parameter's rows in the tables and in the headers of weights files, with its names, and what looks it up."""


def program_bytes(calls: Iterable[Call], params: int) -> int:
    """Resident bytes of a program that makes these calls and has so many parameters; equal kernels are in it once."""
    listed = list(calls)
    source = sum(map(len, {call.kernel.symbol: call.kernel.source for call in listed}.values()))
    operands = sum(len(call.operands) + call.workspace for call in listed)
    tables = OF_CALL * len(listed) + OF_OPERAND * operands + OF_PARAMETER * params
    return BASE + round(OF_SOURCE * source) + tables
