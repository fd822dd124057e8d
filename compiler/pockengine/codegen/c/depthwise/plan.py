"""The sizes of one kernel of a depthwise convolution: blocks of channels, taps, and which columns see which taps."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from ....ir import Node
from ....ops import Convolution, convolution_of
from ....ops.convolution import Geometry, channels_of_group, filters_of
from ....targets import Target
from ...common.index_maps import Access, Axis, Contraction, Digit
from ...common.region import anchor_of
from ...common.scratch import aligned

GROUPS = (1, 2, 4, 8, 16)
"""Channels of a group that these templates know: whole groups fill registers."""
PIXELS = 4
"""Neighbouring results computed together, unless measured otherwise: they share loads of the source and of the
weights. Of groups of several channels, whose weights are many, as many as sums fit into three eighths of the
registers."""


@dataclass(frozen=True)
class DepthwiseTile:
    """What can be chosen of a depthwise kernel: channels of a block (the widest one) and neighbouring results computed
    together."""

    lanes: int
    pixels: int

    @property
    def multiplies_in(self) -> str:
        return "f32"

    def to_plain(self) -> Any:
        return asdict(self)

    def describe(self) -> str:
        return f"tile {self.pixels} pixels x {self.lanes} channels"


def by_channels(anchor: Node) -> bool:
    """Whether a contraction is a convolution (or gradient) of so few channels a group that it is vectorised along
    channels."""
    return channels_of_group(anchor) in GROUPS


@dataclass(frozen=True)
class Phase:
    """Result columns `first + step * t`: each sums tap s at source column `pace * t + shift`, over `taps` = (s,
    shift)."""

    first: int
    step: int
    pace: int
    taps: tuple[tuple[int, int], ...]

    def count(self, width: int) -> int:
        """Result columns of this phase."""
        return max(0, -(-(width - self.first) // self.step))

    def interior(self, width: int, source: int) -> tuple[int, int]:
        """The range of t in which every tap reads inside the source."""
        low = max((-(shift // self.pace) for _, shift in self.taps), default=0)
        high = min(((source - 1 - shift) // self.pace + 1 for _, shift in self.taps), default=self.count(width))
        low = min(max(0, low), self.count(width))
        return low, max(low, min(high, self.count(width)))


@dataclass(frozen=True)
class Depthwise:
    """Sizes of one kernel. `source` and `result` are (height, width) of the image read and the image written
    (forward and input gradient); in the weight gradient the image x and dy. With `both`, an input gradient's rows are
    multiplied with x for the weight gradient too. Weights lie as [tap][channel of the group][channel]."""

    node: Node
    anchor: Node
    geometry: Geometry
    batch: int
    channels: int
    taps: tuple[int, int]
    source: tuple[int, int]
    result: tuple[int, int]
    lanes: int
    tasks: int
    pixels: int = PIXELS
    both: bool = False

    @classmethod
    def of(
        cls,
        node: Node,
        target: Target,
        threads: int,
        tile: DepthwiseTile | None = None,
        anchor: Node | None = None,
    ) -> Depthwise:
        """The plan of a region's depthwise convolution, or of `anchor` among several."""
        anchor = anchor or anchor_of(node)
        geometry = Geometry.of(anchor.attrs)
        n, c, h, w = geometry.nchw(anchor.inputs[0].type.shape)
        sums_filters = convolution_of(anchor) is Convolution.FILTER_GRADIENT
        other = anchor.inputs[1] if sums_filters else anchor.output
        _, _, p, q = geometry.nchw(other.type.shape)
        taps = filters_of(anchor).type.shape[2:]
        if tile is not None:
            sizes = ((taps[0], taps[1]), (h, w), (p, q))
            return cls(node, anchor, geometry, n, c, *sizes, tile.lanes, threads, tile.pixels)
        group = channels_of_group(anchor)
        lanes = max(group, target.vector_bytes // 4)
        if not sums_filters and target.registers >= 32 and c >= 2 * lanes and group == 1:
            lanes *= 2  # two registers a value: whole pairs of cache lines at each pixel
        while sums_filters and -(-c // lanes) < threads and lanes > max(4, group):
            lanes //= 2
        plan = cls(node, anchor, geometry, n, c, (taps[0], taps[1]), (h, w), (p, q), lanes, threads)
        if sums_filters or group == 1:
            return plan
        low, high = plan.phases()[0].interior(q, w)
        registers = lanes * 4 // target.vector_bytes
        blocks = max(1, -(-(high - low) // max(1, 3 * target.registers // 8 // registers)))
        return replace(plan, pixels=max(1, -(-(high - low) // blocks)))

    @property
    def convolution(self) -> Convolution | None:
        """Which of a convolution's three operators the anchor is."""
        return convolution_of(self.anchor)

    @property
    def sums_filters(self) -> bool:
        """Whether the anchor is the weight gradient: its result is small, and sums over all pixels."""
        return self.convolution is Convolution.FILTER_GRADIENT

    @property
    def group(self) -> int:
        """Channels of a group."""
        return channels_of_group(self.anchor)

    @property
    def weight_rows(self) -> int:
        """Weights of each channel."""
        return self.tap_count * self.group

    @property
    def tap_count(self) -> int:
        return self.taps[0] * self.taps[1]

    def widths(self) -> list[tuple[int, int, int]]:
        """(lanes, first channel, end) of the runs of channel blocks: whole registers, then ever narrower ones."""
        found, start, lanes = [], 0, self.lanes
        while start < self.channels:
            count = (self.channels - start) // lanes
            if count:
                found.append((lanes, start, start + count * lanes))
                start += count * lanes
            lanes //= 2
        return found

    @property
    def narrowest(self) -> int:
        """Lanes of the narrowest channel blocks: a divisor of where each begins."""
        return self.widths()[-1][0]

    def phases(self) -> list[Phase]:
        """Forward: one phase. Input gradient: one per residue of the column modulo the stride."""
        (_, stride), (_, left, _, _), (_, dilation) = self.geometry.stride, self.geometry.pad, self.geometry.dilation
        if self.convolution is Convolution.FORWARD:
            return [Phase(0, 1, stride, tuple((s, s * dilation - left) for s in range(self.taps[1])))]
        phases = []
        for residue in range(min(stride, self.result[1])):
            offsets = [(s, residue + left - s * dilation) for s in range(self.taps[1])]
            taps = tuple((s, offset // stride) for s, offset in offsets if offset % stride == 0)
            phases.append(Phase(residue, stride, 1, taps))
        return phases

    @property
    def weight_bytes(self) -> int:
        return aligned(4 * self.weight_rows * self.channels)

    @property
    def tile_bytes(self) -> int:
        return aligned(4 * self.result[1] * self.lanes)

    def maps(self) -> Contraction:
        """The anchor's shape in terms of (m, n): pixels and channels, or taps and channels."""
        nothing = Access(0, {})
        if self.sums_filters:
            m: Axis = (Digit("r", self.taps[0]), Digit("s", self.taps[1]), Digit("j", self.group))
            m = m if self.group > 1 else m[:2]
            places = ((("c", 1),), (("j", 1),) if self.group > 1 else (), (("r", 1),), (("s", 1),))
        else:
            m = (Digit("b", self.batch), Digit("p", self.result[0]), Digit("q", self.result[1]))
            places = ((("b", 1),), (("p", 1),), (("q", 1),), (("c", 1),))
        return Contraction(
            (), m, (Digit("c", self.channels),), (), nothing, nothing, self.anchor.output.type.shape, places
        )
