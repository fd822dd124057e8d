"""Tables of the convolutional models, for the frameworks in which they are written by hand."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bottleneck:
    """An inverted bottleneck: 1x1 to `expanded` channels (left out where that is the input's), depthwise, 1x1."""

    inputs: int
    expanded: int
    outputs: int
    kernel: int
    stride: int

    @property
    def residual(self) -> bool:
        return self.stride == 1 and self.inputs == self.outputs


def bottlenecks(inputs: int, rows: tuple[tuple[int, int, int, int], ...]) -> tuple[Bottleneck, ...]:
    """Blocks in a row, from rows of (kernel, expansion, output channels, stride)."""
    blocks = []
    for kernel, expansion, outputs, stride in rows:
        blocks.append(Bottleneck(inputs, inputs * expansion, outputs, kernel, stride))
        inputs = outputs
    return tuple(blocks)


MCUNET_STEM = 16
MCUNET_BLOCKS = bottlenecks(
    MCUNET_STEM,
    (
        (3, 1, 8, 1),
        (7, 4, 16, 2), (3, 4, 16, 1), (5, 3, 16, 1),
        (5, 5, 24, 2), (5, 5, 24, 1), (3, 4, 24, 1),
        (5, 5, 40, 2), (5, 5, 40, 1), (7, 4, 40, 1),
        (3, 5, 48, 1), (5, 4, 48, 1),
        (5, 5, 96, 2), (5, 4, 96, 1), (5, 4, 96, 1),
        (7, 6, 160, 1),
    ),
)  # fmt: skip
"""16 blocks, mixed kernels, widths 8 to 160: about 0.5 M parameters, as MCUNet-5FPS."""

# MobileNetV2's stem is a convolution, a depthwise one and a projection; then (kernel, expansion, channels, stride).
MOBILENET_STEM = 32
MOBILENET_BLOCKS = bottlenecks(
    16,
    (
        *((3, 6, 24, stride) for stride in (2, 1)),
        *((3, 6, 32, stride) for stride in (2, 1, 1)),
        *((3, 6, 64, stride) for stride in (2, 1, 1, 1)),
        *((3, 6, 96, 1) for _ in range(3)),
        *((3, 6, 160, stride) for stride in (2, 1, 1)),
        (3, 6, 320, 1),
    ),
)

RESNET_DEPTHS = (3, 4, 6, 3)
RESNET_WIDTHS = (256, 512, 1024, 2048)
