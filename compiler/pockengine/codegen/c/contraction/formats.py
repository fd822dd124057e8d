"""The number formats in which contractions multiply, and the instruction of each. Sums are always in f32."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from ....targets import Target
from ...common.index_maps import Contraction

PART_BITS = 8
"""Significant bits of a bf16 number: what one part holds of an element."""
LEAST_SIZE = 16
"""Rows, columns or products of fewer are left to f32: conversion would cost more than it saves."""


class Instruction(StrEnum):
    """What multiplies."""

    FMA = "fma"
    """Multiply-adds of vectors of f32."""
    AMX = "amx"
    """Products of tile registers of bf16."""
    DPBF16 = "dpbf16"
    """Products of pairs of bf16 in vectors, of AVX-512."""
    BFDOT = "bfdot"
    """The same of NEON."""
    FMLAL = "fmlal"
    """Products of vectors of f16 that are added up in f32, of NEON."""


@dataclass(frozen=True)
class CompressedOperand:
    """Which operand of a contraction is compressed, and how many significant bits its numbers have."""

    index: int
    significant: int


@dataclass(frozen=True)
class Format:
    """
    instruction   what multiplies
    type, nbytes  of a packed number
    group         neighbours along k that lie together in a panel of B
    step          k is filled up with zeros to a multiple of this
    lanes         columns of a vector of results
    parts         numbers whose sum is an element: three of bf16 hold an f32
    """

    instruction: Instruction
    type: str
    nbytes: int
    group: int
    step: int
    lanes: int
    parts: int = 1

    @property
    def name(self) -> str:
        """As `target.compute` names it; with several parts their number behind it, as oneMKL names such products."""
        type = {"float": "f32", "__bf16": "bf16", "_Float16": "f16"}[self.type]
        return type if self.parts == 1 else f"{type}x{self.parts}"

    @property
    def exact(self) -> bool:
        """Whether products are as good as those of f32."""
        return self.type == "float" or self.parts > 1

    @property
    def element_bytes(self) -> int:
        """All parts of a packed element."""
        return self.nbytes * self.parts

    def left_parts(self, compressed: CompressedOperand | None) -> int:
        """Parts of an element of the left operand, which is the compressed one if there is one."""
        return self.parts if compressed is None else min(self.parts, -(-compressed.significant // PART_BITS))

    def products(self, left: int) -> list[tuple[int, int]]:
        """Which parts of the left and right operand are multiplied, where an element of the left one has `left`: those
        whose product an f32 sum would notice, in an order in which one of both mostly stays the same."""
        first = [(i, 0) for i in reversed(range(left))]
        return first + [(i, j) for j in range(self.parts - 1, 0, -1) for i in range(min(left, self.parts - j))]

    def filled(self, depth: int) -> int:
        """k with the zeros after it."""
        return -(-depth // self.step) * self.step


def f32(target: Target) -> Format:
    """The format that every target has."""
    return Format(Instruction.FMA, "float", 4, 1, 1, target.vector_bytes // 4)


@cache
def fastest(target: Target) -> Format:
    """The format of what `target.compute` names, with the fastest instruction the target has for it."""
    lanes = target.vector_bytes // 4
    if target.compute == "f16":
        return Format(Instruction.FMLAL, "_Float16", 2, 1, 1, 2 * lanes)
    if target.uses_tiles:
        return Format(Instruction.AMX, "__bf16", 2, 2, 32, 16, parts=3 if target.compute == "f32" else 1)
    if target.compute == "bf16":
        return Format(Instruction.BFDOT if target.arch == "aarch64" else Instruction.DPBF16, "__bf16", 2, 2, 2, lanes)
    return f32(target)


def formats_of(contraction: Contraction, target: Target) -> list[Format]:
    """The formats in which a contraction may compute on a target: what `target.compute` names, or what is as exact."""
    exact, found = f32(target), fastest(target)
    if found == exact or min(contraction.sizes()[1:]) < LEAST_SIZE:
        return [exact]
    return [exact, found] if found.exact else [found]


def named(name: str, target: Target) -> Format:
    """The format of a target that has this name."""
    found = fastest(target)
    return found if found.name == name else f32(target)
