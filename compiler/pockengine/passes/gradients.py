"""Both gradients of a depthwise convolution as one region, which reads each element of dy once for the two.

The sums over pixels that biases get are added up on the way. Such a region has three parts, each with its own loop.
Knows nothing of how regions grow: `fuse` asks whether nodes would make one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ..ir import DType, Node, Value
from ..ops import Combination, Convolution, combination_of, convolution_of, is_kind
from ..ops.convolution import channels_of_group, filters_of


class Part(StrEnum):
    """Of a region of gradients: each has a loop of its own, over a shape of its own."""

    IMAGE = "image"
    """dx, and elementwise what is made of it."""
    WEIGHTS = "weights"
    """dw, and elementwise what is made of it."""
    CHANNELS = "channels"
    """Sums over all pixels, one number a channel, and what is made of them."""
    FREE = "free"
    """What only needs operands of the region: each part that reads it computes it."""


@dataclass(frozen=True)
class Gradients:
    """Which part makes each value. The shapes of image, weights and channels are three different ones.

    dy_sum      the sum of dy, where it is asked for
    image_sum   the sum of a value of the image, where one is asked for"""

    dx: Node
    dw: Node
    part: dict[Value, Part]
    dy_sum: Node | None
    image_sum: Node | None

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> Gradients | None:
        """The parts of a region of these nodes, which are in order; None where they do not make such a region."""
        members = list(nodes)
        anchors = sorted((node for node in members if is_kind(node, "contraction")), key=lambda node: node.op)
        if len(anchors) != 2 or not _paired(dw := anchors[0], dx := anchors[1]):
            return None
        shapes = {Part.IMAGE: dx.output.type.shape, Part.WEIGHTS: dw.output.type.shape}
        shapes[Part.CHANNELS] = (1, 1, 1, shapes[Part.IMAGE][3])
        if len(set(shapes.values())) < len(shapes):
            return None
        part = {dx.output: Part.IMAGE, dw.output: Part.WEIGHTS}
        sums: dict[Value, Node] = {}
        for node in members:
            if node in anchors:
                continue
            if is_kind(node, "reduction"):
                if not _adds_pixels(node, part, dx.inputs[0]) or node.inputs[0] in sums:
                    return None
                sums[node.inputs[0]] = node
                part[node.output] = Part.CHANNELS
                continue
            below = {part[value] for value in node.inputs if value in part} - {Part.FREE}
            place = below.pop() if below else Part.FREE
            fitting = shapes.values() if place is Part.FREE else (shapes[place],)
            if below or not is_kind(node, "elementwise") or node.output.type.shape not in fitting:
                return None
            part[node.output] = place
        dy_sum = sums.pop(dx.inputs[0], None)
        if len(sums) > 1 or not part.keys().isdisjoint((*dx.inputs, *dw.inputs)):
            return None
        return cls(dx, dw, part, dy_sum, next(iter(sums.values()), None))

    def place(self, value: Value) -> Part:
        """Where an output of the region is written."""
        if self.part[value] is not Part.FREE:
            return self.part[value]
        shapes = {self.dx.output.type.shape: Part.IMAGE, self.dw.output.type.shape: Part.WEIGHTS}
        return shapes.get(value.type.shape, Part.CHANNELS)


def _paired(dw: Node, dx: Node) -> bool:
    """Whether these are the gradients of one depthwise convolution of f32."""
    wanted = (Convolution.FILTER_GRADIENT, Convolution.IMAGE_GRADIENT)
    if (convolution_of(dw), convolution_of(dx)) != wanted or dw.inputs[1] is not dx.inputs[0]:
        return False
    same = all(dw.attrs[name] == dx.attrs[name] for name in ("stride", "pad", "dilation", "groups", "layout"))
    types = dw.inputs[0].type == dx.output.type and filters_of(dw).type == filters_of(dx).type
    exact = dx.output.type.dtype is DType.F32 and all(value.type.size for value in (*dw.inputs, *dx.inputs))
    return same and types and exact and channels_of_group(dw) == 1


def _adds_pixels(node: Node, part: dict[Value, Part], dy: Value) -> bool:
    """Whether a reduction sums dy, or a value of the image, over all pixels (axes of size 1 aside)."""
    value = node.inputs[0]
    summed = value is dy or (part.get(value) is Part.IMAGE and value.type.dtype is DType.F32)
    return combination_of(node) is Combination.SUM and summed and node.output.type.shape == (1, 1, 1, dy.type.shape[3])
