"""Analytical models that rank the ways to compute a contraction: one for each kind of instruction, picked here."""

from __future__ import annotations

from operator import itemgetter

from .....targets import Target
from ....common.index_maps import Contraction
from ..formats import CompressedOperand, Format, Instruction, formats_of, named
from ..schedule import Schedule
from .cost import CostModel, Ranked
from .f32 import F32Model
from .narrow import TileModel, VectorModel

__all__ = ["CostModel", "Ranked", "model_for", "model_of", "schedules_of"]


def model_of(format: Format, target: Target, threads: int) -> CostModel:
    """The model of a format on a target."""
    kind = {Instruction.FMA: F32Model, Instruction.AMX: TileModel}.get(format.instruction, VectorModel)
    return kind(target, threads, format)


def model_for(schedule: Schedule, target: Target, threads: int) -> CostModel:
    """The model that made a schedule."""
    return model_of(named(schedule.format, target), target, threads)


def schedules_of(
    contraction: Contraction, target: Target, threads: int, compressed: CompressedOperand | None
) -> Ranked:
    """The candidates of the models for the formats in which a contraction may compute, the cheapest first."""
    found: Ranked = []
    for format in formats_of(contraction, target):
        found += model_of(format, target, threads).ranked(contraction, compressed)
    return sorted(found, key=itemgetter(0))
