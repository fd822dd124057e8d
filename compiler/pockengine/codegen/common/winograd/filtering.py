"""Which convolutions minimal filtering computes, and their tiles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

from ....ir import Node
from ....ops import Convolution, convolution_of
from ....ops.convolution import Geometry
from ....passes.winograd_marks import WINOGRAD
from .transforms import TAPS, Transforms, transforms_of


class Filtering(ABC):
    """A convolution, or its input gradient, whose results are computed m x m at a time."""

    anchor: Node

    @property
    @abstractmethod
    def outputs(self) -> int:
        """m of F(m x m, 3 x 3)."""

    @cached_property
    def geometry(self) -> Geometry:
        return Geometry.of(self.anchor.attrs)

    @property
    def gradient(self) -> bool:
        """Whether it is the input gradient."""
        return convolution_of(self.anchor) is Convolution.IMAGE_GRADIENT

    @property
    def transforms(self) -> Transforms:
        return transforms_of(self.outputs)

    # sizes of the image read (height, width) and written, channels of both
    @cached_property
    def source(self) -> tuple[int, int]:
        return self.geometry.nchw(self.anchor.inputs[0].type.shape)[2:]

    @cached_property
    def result(self) -> tuple[int, int]:
        return self.geometry.nchw(self.anchor.output.type.shape)[2:]

    @cached_property
    def depth(self) -> int:
        return self.geometry.nchw(self.anchor.inputs[0].type.shape)[1]

    @cached_property
    def width(self) -> int:
        return self.geometry.nchw(self.anchor.output.type.shape)[1]

    @property
    def offset(self) -> tuple[int, int]:
        """Pixels that the first window begins before the image."""
        top, left, _, _ = self.geometry.pad
        return (TAPS - 1 - top, TAPS - 1 - left) if self.gradient else (top, left)

    @property
    def grid(self) -> tuple[int, int]:
        """Tiles of an image down and along."""
        return -(-self.result[0] // self.outputs), -(-self.result[1] // self.outputs)

    @cached_property
    def tiles(self) -> int:
        return self.anchor.output.type.shape[0] * self.grid[0] * self.grid[1]


def can_be_filtered(anchor: Node) -> bool:
    """Whether a pass allows it, and it has 3 x 3 taps, stride 1 and one group."""
    if not anchor.attrs.get(WINOGRAD) or anchor.attrs["layout"] != "NHWC" or not anchor.output.type.size:
        return False
    geometry = Geometry.of(anchor.attrs)
    dense = geometry.stride == geometry.dilation == (1, 1) and geometry.groups == 1
    return dense and anchor.inputs[1].type.shape[2:] == (TAPS, TAPS)
