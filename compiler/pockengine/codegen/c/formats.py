"""In which format the operands of a contraction are packed, and which instruction multiplies them. Products of all
formats are added up in f32."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ...targets import Target
from .maps import Contraction

LEAST_SIZE = 16
"""Rows, columns or products of fewer are left to f32: conversion would cost more than it saves."""


@dataclass(frozen=True)
class Format:
    """
    instruction   what multiplies: "fma" (f32), "amx" (tiles of bf16), "dpbf16", "bfdot" (pairs of bf16), "fmlal" (f16)
    type, nbytes  of a packed element
    group         neighbours along k that lie together in a panel of B
    step          k is filled up with zeros to a multiple of this
    lanes         columns of a vector of results
    """

    instruction: str
    type: str
    nbytes: int
    group: int
    step: int
    lanes: int

    @property
    def name(self) -> str:
        """As `target.compute` names it."""
        return {"float": "f32", "__bf16": "bf16", "_Float16": "f16"}[self.type]

    @property
    def narrow(self) -> bool:
        """Whether packing converts."""
        return self.nbytes < 4

    def filled(self, depth: int) -> int:
        """k with the zeros after it."""
        return -(-depth // self.step) * self.step


def f32(target: Target) -> Format:
    """The format that every target has."""
    return Format("fma", "float", 4, 1, 1, target.vector_bytes // 4)


@cache
def fastest(target: Target) -> Format:
    """The format of what `target.compute` names, with the fastest instruction the target has for it."""
    lanes = target.vector_bytes // 4
    if target.compute == "f16":
        return Format("fmlal", "_Float16", 2, 1, 1, 2 * lanes)
    if target.uses_tiles:
        return Format("amx", "__bf16", 2, 2, 32, 16)
    if target.compute == "bf16":
        return Format("bfdot" if target.arch == "aarch64" else "dpbf16", "__bf16", 2, 2, 2, lanes)
    return f32(target)


def format_of(contraction: Contraction, target: Target) -> Format:
    """In which format a contraction computes on a target."""
    worthwhile = min(contraction.sizes()[1:]) >= LEAST_SIZE
    return fastest(target) if worthwhile else f32(target)
