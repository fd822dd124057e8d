"""Machine code as text: the disassembly of a program, and its basic blocks as llvm-mca reads them."""

from __future__ import annotations

import re
import subprocess
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmarks.raspberry_pi.tools import tool

_FUNCTION = re.compile(r"^([0-9a-f]+) <([^>]+)>:$")
_INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(.*\S)\s*$")
_PLACE = re.compile(r"0x[0-9a-f]+ <[^>]*>")
_NOT_MODELLED = ("bl", "blr", "svc")
"""What llvm-mca has no cycles for: calls go on in other blocks."""
_FUSED = ("fmla ", "fmls ")
_ARITHMETIC = (
    *_FUSED, "fadd ", "fsub ", "fmul ", "fdiv ", "fmin", "fmax", "fneg ", "fabs ", "fcvt", "fcm", "frint", "scvtf ",
    "bsl ", "bit ", "bif ", "add ", "sub ", "shl ", "sshr ", "ushr ",
)  # fmt: skip


@dataclass(frozen=True)
class Disassembly:
    """Instructions by address, and functions by where they begin, ascending."""

    instructions: Mapping[int, str]
    functions: tuple[tuple[int, str], ...]

    @cached_property
    def _starts(self) -> list[int]:
        return [start for start, _ in self.functions]

    def function_index(self, address: int) -> int:
        """Which of `functions` holds an address; -1 before the first."""
        return bisect_right(self._starts, address) - 1

    def block(self, address: int, count: int) -> tuple[str, ...]:
        """`count` instructions from an address on; AArch64's are 4 bytes each."""
        return tuple(self.instructions[address + 4 * index] for index in range(count))


def disassemble(program: Path) -> Disassembly:
    """Raises MissingTool."""
    command = [tool("llvm-objdump"), "--disassemble", "--no-show-raw-insn", str(program)]
    return parse_disassembly(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def parse_disassembly(text: str) -> Disassembly:
    """The output of `llvm-objdump --disassemble --no-show-raw-insn`."""
    instructions, functions = {}, []
    for line in text.splitlines():
        if found := _FUNCTION.match(line):
            functions.append((int(found[1], 16), found[2]))
        elif found := _INSTRUCTION.match(line):
            instructions[int(found[1], 16)] = " ".join(found[2].split("//")[0].split())
    return Disassembly(instructions, tuple(sorted(functions)))


def assembly(block: Iterable[str]) -> str:
    """Disassembled instructions as an assembler takes them: places become a label, calls are left out."""
    return "\n".join(_PLACE.sub("place", line) for line in block if line.split(" ", 1)[0] not in _NOT_MODELLED)


def vector_products(block: Iterable[str]) -> int:
    """Fused multiply-adds on registers of four f32, of 8 FLOP each."""
    return sum(line.startswith(_FUSED) and ".4s" in line for line in block)


def vector_arithmetic(block: Iterable[str]) -> int:
    """Instructions that compute on registers of four numbers."""
    return sum(line.startswith(_ARITHMETIC) and ".4s" in line for line in block)
