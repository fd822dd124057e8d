"""Whether and how a convolution is computed by Winograd's minimal filtering.

A plan says how large tiles are, what threads share, and how large the arrays between the transforms are. An analytical
model weighs it against the direct product."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from ....ir import Node
from ....ops.convolution import Geometry
from ....targets import Target
from ...common.scratch import aligned
from ...common.winograd.filtering import Filtering, can_be_filtered
from ...common.winograd.transforms import TAPS
from ..contraction.models.cost import BARRIER_CYCLES, MOVE_CYCLES
from ..contraction.models.f32 import tile_cycles

MOST_ROWS = 24
BLOCK = 56
"""Tiles of a block at most, so that its transform and its sums stay in the second-level cache."""
IMAGE_CYCLES, WEIGHT_CYCLES = 3.0, 9.0
"""Per vector and point of a tile: to transform the image, or the results, and the weights, which are transposed too."""
NEAR_CYCLES, FAR_CYCLES = 0.05, 0.5
"""To write or read an element of what stays in the second-level cache, and of what does not."""
MARGIN = 1.3
"""How much cheaper than the direct product it must seem: the model of transforms is rough, and for some shapes that far
off (20 measured: 7 to 56 pixels, 64 to 512 channels, batches 1 and 4, one and two threads)."""


class Share(StrEnum):
    """What threads share in a convolution by minimal filtering."""

    TILES = "tiles"
    """Tiles of the image: a first call transforms all weights for them."""
    PANELS = "panels"
    """Panels of the weights: a first call transforms the image for them."""


@dataclass(frozen=True)
class WinogradTile:
    """What can be chosen of minimal filtering.

    outputs   m of F(m x m, 3 x 3)
    vectors   columns of a panel, in vectors
    split     what threads share
    """

    outputs: int
    vectors: int
    split: Share

    @property
    def multiplies_in(self) -> str:
        return "f32"

    def to_plain(self) -> Any:
        return asdict(self)

    def describe(self) -> str:
        size = f"Winograd F({self.outputs} x {self.outputs}, 3 x 3)"
        return f"{size}, panels of {self.vectors} vectors, threads share {self.split}"


@dataclass(frozen=True)
class Winograd(Filtering):
    """A convolution computed by minimal filtering."""

    anchor: Node
    target: Target
    threads: int
    tile: WinogradTile

    @property
    def outputs(self) -> int:
        return self.tile.outputs

    @property
    def vectors(self) -> int:
        return self.tile.vectors

    @property
    def split(self) -> Share:
        return self.tile.split

    # the register tile, and what is computed together
    @property
    def lanes(self) -> int:
        return self.target.vector_bytes // 4

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes

    @property
    def panels(self) -> int:
        return self.width // self.columns

    @cached_property
    def rows(self) -> int:
        most = min(MOST_ROWS, (self.target.registers - 1 - self.vectors) // self.vectors)
        units = -(-self.tiles // most)
        if self.split is Share.TILES:
            units = -(-units // self.threads) * self.threads
        return -(-self.tiles // units)

    @property
    def units(self) -> int:
        """Register tiles of a panel."""
        return -(-self.tiles // self.rows)

    @cached_property
    def block(self) -> int:
        """Tiles of the image at a time."""
        share = -(-self.units // self.threads) if self.split is Share.TILES else self.units
        return min(share, max(1, BLOCK // self.rows)) * self.rows

    # elements between rows and points; odd numbers of lines apart, points do not compete for the same sets
    @property
    def row_step(self) -> int:
        return self.depth + 16 if self.depth % 256 == 0 else self.depth

    @property
    def image_step(self) -> int:
        return _odd_lines((self.block if self.split is Share.TILES else self.tiles) * self.row_step)

    @property
    def weight_step(self) -> int:
        return _odd_lines(self.depth * self.columns)

    @property
    def sums_step(self) -> int:
        return _odd_lines(self.block * self.columns)

    @property
    def panel_step(self) -> int:
        return self.transforms.points * self.weight_step

    # workspace: what all tasks read, then per task its own operand and the sums
    @property
    def shared_bytes(self) -> int:
        all_panels, image = self.panels * self.panel_step, self.transforms.points * self.image_step
        return aligned(4 * (all_panels if self.split is Share.TILES else image))

    @property
    def own_bytes(self) -> int:
        return 4 * (self.transforms.points * self.image_step if self.split is Share.TILES else self.panel_step)

    @property
    def task_bytes(self) -> int:
        return aligned(self.own_bytes) + aligned(4 * self.transforms.points * self.sums_step)

    @property
    def workspace_bytes(self) -> int:
        return self.shared_bytes + self.threads * self.task_bytes

    @cached_property
    def cycles(self) -> float:
        """What the busiest task takes, as the analytical model of direct products counts."""
        points, lanes, threads = self.transforms.points, self.lanes, self.threads
        shared = self.units if self.split is Share.TILES else self.panels
        part = -(-shared // threads) / shared  # of the busiest task
        heights = {self.rows: self.tiles // self.rows, self.tiles % self.rows: 1}
        steps = sum(tile_cycles(rows, self.vectors, lanes) * count for rows, count in heights.items() if rows)
        multiply = points * self.depth * steps * self.panels
        results = IMAGE_CYCLES * points * self.tiles * self.width / lanes
        image = IMAGE_CYCLES * points * self.tiles * self.depth / lanes
        weights = self.depth * self.width * (WEIGHT_CYCLES * points / lanes + TAPS**2 * MOVE_CYCLES)
        image_share, weight_share = (part, 1 / threads) if self.split is Share.TILES else (1 / threads, part)
        total = (multiply + results) * part + image * image_share + weights * weight_share
        return total + self._traffic(part) + BARRIER_CYCLES

    def _traffic(self, part: float) -> float:
        """Cycles to write and read the transformed operands: what tasks share is read once for each block of tiles, or
        once for each panel; what is a task's own, once for each panel or block."""
        points = self.transforms.points
        blocks = max(1.0, self.tiles * (part if self.split is Share.TILES else 1.0) / self.block)
        panels = self.panels * (part if self.split is Share.PANELS else 1.0)
        image, weights = points * self.tiles * self.depth, points * self.depth * self.width
        cost = self._move_cycles
        if self.split is Share.TILES:
            moved = weights * cost(4 * weights) * (1 / self.threads + blocks)
            return moved + image * part * panels * cost(self.task_bytes)
        moved = image * cost(4 * image) * (1 / self.threads + panels)
        return moved + weights * part * blocks * cost(self.task_bytes)

    def _move_cycles(self, nbytes: int) -> float:
        return FAR_CYCLES if nbytes > self.target.l2_bytes else NEAR_CYCLES


def _odd_lines(elements: int) -> int:
    """The next odd number of lines of 64 bytes."""
    return (-(-elements // 16) | 1) * 16


def fits(anchor: Node, target: Target) -> bool:
    """Whether minimal filtering can compute an anchor, which has whole vectors of channels."""
    weights, lanes = anchor.inputs[1].type.shape, target.vector_bytes // 4
    return can_be_filtered(anchor) and not (weights[0] % lanes or weights[1] % lanes)


def ranked(anchor: Node, target: Target, threads: int) -> list[tuple[float, Winograd]]:
    """The plans for an anchor, none where it does not fit, with the cycles that they seem to take beside a direct
    product, the quickest first."""
    found = candidates(anchor, target, threads) if fits(anchor, target) else []
    return sorted(((MARGIN * one.cycles, one) for one in found), key=lambda pair: pair[0])


def candidates(anchor: Node, target: Target, threads: int) -> list[Winograd]:
    """The plans for an anchor that fits."""
    width = Geometry.of(anchor.attrs).nchw(anchor.output.type.shape)[1] // (target.vector_bytes // 4)
    return [
        Winograd(anchor, target, threads, WinogradTile(outputs, vectors, split))
        for outputs in (2, 4)
        for vectors in (1, 2, 3, 4)
        if width % vectors == 0
        for split in Share
    ]
