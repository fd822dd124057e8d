"""Networks whose output is an image or a map of boxes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .convolutional import Output, conv_norm


class TransposedUp(nn.Module):
    """Twice the size by a transposed convolution."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(inputs, outputs, 2, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(x)


class BilinearUp(nn.Module):
    """Twice the size by interpolation, then a convolution."""

    def __init__(self, inputs: int, outputs: int, align_corners: bool = False) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.align_corners = align_corners

    def forward(self, x: Tensor) -> Tensor:
        big = nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=self.align_corners)
        return self.conv(big)


def _pair(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        conv_norm(inputs, outputs, activation=nn.ReLU()), conv_norm(outputs, outputs, activation=nn.ReLU())
    )


class UNet(nn.Module):
    """Two levels down and up with skips; a class for each pixel, as logits [batch, height, width, classes]."""

    def __init__(self, up: type[nn.Module], classes: int) -> None:
        super().__init__()
        self.first, self.second, self.bottom = _pair(3, 8), _pair(8, 16), _pair(16, 32)
        self.up2, self.up1 = up(32, 16), up(16, 8)
        self.back2, self.back1 = _pair(32, 16), _pair(16, 8)
        self.classifier = nn.Conv2d(8, classes, 1)

    def forward(self, pixel_values: Tensor) -> Output:
        first = self.first(pixel_values)
        second = self.second(nn.functional.max_pool2d(first, 2))
        bottom = self.bottom(nn.functional.max_pool2d(second, 2))
        second = self.back2(torch.cat([second, self.up2(bottom)], 1))
        first = self.back1(torch.cat([first, self.up1(second)], 1))
        return {"logits": self.classifier(first).permute(0, 2, 3, 1)}


class CSPBlock(nn.Module):
    """YOLO's cross-stage block: one half goes through a bottleneck, both are joined."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.enter = conv_norm(width, width, 1, activation=nn.SiLU())
        self.body = nn.Sequential(
            conv_norm(width // 2, width // 2, activation=nn.SiLU()),
            conv_norm(width // 2, width // 2, activation=nn.SiLU()),
        )
        self.leave = conv_norm(width // 2 * 3, width, 1, activation=nn.SiLU())

    def forward(self, x: Tensor) -> Tensor:
        left, right = self.enter(x).chunk(2, 1)
        return self.leave(torch.cat([left, right, right + self.body(right)], 1))


class SpatialPyramid(nn.Module):
    """YOLO's pooling at several scales (SPPF)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.enter = conv_norm(width, width // 2, 1, activation=nn.SiLU())
        self.leave = conv_norm(width * 2, width, 1, activation=nn.SiLU())

    def forward(self, x: Tensor) -> Tensor:
        scales = [self.enter(x)]
        for _ in range(3):
            scales.append(nn.functional.max_pool2d(scales[-1], 5, 1, 2))
        return self.leave(torch.cat(scales, 1))


class YOLO(nn.Module):
    """Two scales, no anchors; it computes its own loss.

    target  [batch, cells, 5 + classes]: boxes as corners in pixels, whether the cell has an object, its class one-hot
    """

    strides = (4, 8)

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.stem = conv_norm(3, 16, stride=2, activation=nn.SiLU())
        self.fine = nn.Sequential(conv_norm(16, 32, stride=2, activation=nn.SiLU()), CSPBlock(32))
        self.coarse = nn.Sequential(conv_norm(32, 48, stride=2, activation=nn.SiLU()), SpatialPyramid(48))
        self.neck = conv_norm(80, 32, 1, activation=nn.SiLU())
        self.heads = nn.ModuleList([nn.Conv2d(32, 5 + classes, 1), nn.Conv2d(48, 5 + classes, 1)])

    def forward(self, pixel_values: Tensor, target: Tensor) -> Output:
        fine = self.fine(self.stem(pixel_values))
        coarse = self.coarse(fine)
        fine = self.neck(torch.cat([fine, nn.functional.interpolate(coarse, scale_factor=2.0, mode="nearest")], 1))
        raw = [head(x).permute(0, 2, 3, 1) for head, x in zip(self.heads, (fine, coarse), strict=True)]
        boxes = torch.cat([_boxes(x[..., :4], stride) for x, stride in zip(raw, self.strides, strict=True)], 1)
        scores = torch.cat([x[..., 4:].flatten(1, 2) for x in raw], 1)
        objects = target[..., 4]
        overlap = (1.0 - _generalised_iou(boxes, target[..., :4])) * objects
        classes = nn.functional.binary_cross_entropy_with_logits(scores, target[..., 4:])
        return {"loss": overlap.sum() / objects.sum().clamp(min=1.0) + classes, "boxes": boxes, "scores": scores}


def _boxes(raw: Tensor, stride: int) -> Tensor:
    """Offsets from each cell and sizes, [batch, rows, columns, 4], to corners in pixels, [batch, cells, 4]."""
    rows, columns = torch.meshgrid(torch.arange(raw.shape[1]), torch.arange(raw.shape[2]), indexing="ij")
    centres = torch.sigmoid(raw[..., :2]) * 2.0 - 0.5 + torch.stack([columns, rows], -1)
    half = torch.exp(raw[..., 2:].clamp(max=4.0)) / 2
    return (torch.cat([centres - half, centres + half], -1) * stride).flatten(1, 2)


def _generalised_iou(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union, less the share of the hull that neither covers (Rezatofighi et al. 2019)."""
    areas = [(box[..., 2:] - box[..., :2]).prod(-1) for box in (a, b)]
    inside = torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])
    common = inside.clamp(min=0.0).prod(-1)
    hull = (torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])).prod(-1)
    union = areas[0] + areas[1] - common
    return common / union - (hull - union) / hull


class Autoencoder(nn.Module):
    """Images to a few numbers and back."""

    def __init__(self, side: int) -> None:
        super().__init__()
        small = side // 4
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.LeakyReLU(0.1), nn.Conv2d(8, 16, 3, 2, 1), nn.LeakyReLU(0.1), nn.Flatten()
        )
        self.narrow = nn.Linear(16 * small * small, 12)
        self.expand = nn.Linear(12, 16 * small * small)
        self.decoder = nn.Sequential(
            nn.Unflatten(1, (16, small, small)),
            nn.ConvTranspose2d(16, 8, 3, 2, 1, output_padding=1),
            nn.LeakyReLU(0.1),
            nn.ConvTranspose2d(8, 3, 4, 2, 1),
            nn.Tanh(),
        )

    def forward(self, pixel_values: Tensor) -> Tensor:
        return self.decoder(nn.functional.elu(self.expand(self.narrow(self.encoder(pixel_values)))))
