"""Detectors and segmenters with their own losses. Which answer belongs to which prediction is an input: that is decided
where the data are prepared."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import SegformerConfig, SegformerForSemanticSegmentation

from ..family import Family, brief, classes, drawn, images, integers, normal, uniform
from .backbones import conv

BATCH, SIDE, CLASSES, WIDTH = 2, 32, 3, 16
Output = dict[str, Tensor]


def backbone() -> nn.ModuleList:
    """Stages that halve the size, three times."""
    return nn.ModuleList(
        nn.Sequential(conv(inputs, WIDTH, 3, 2), nn.ReLU(), conv(WIDTH, WIDTH), nn.ReLU())
        for inputs in (3, WIDTH, WIDTH)
    )


class FPN(nn.Module):
    """Lin et al. 2017: features of two scales, [batch, width, 8, 8] and [batch, width, 4, 4]."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = backbone()
        self.side = nn.ModuleList(nn.Conv2d(WIDTH, WIDTH, 1) for _ in range(2))
        self.smooth = nn.ModuleList(nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(2))

    def forward(self, x: Tensor) -> list[Tensor]:
        found = []
        for stage in self.stages:
            x = stage(x)
            found.append(x)
        top = self.side[1](found[2])
        below = self.side[0](found[1]) + F.interpolate(top, scale_factor=2.0, mode="nearest")
        return [smooth(y) for smooth, y in zip(self.smooth, (below, top), strict=True)]


def _flat(maps: list[Tensor], numbers: int) -> Tensor:
    """[batch, cells, numbers]"""
    return torch.cat([x.permute(0, 2, 3, 1).reshape(x.shape[0], -1, numbers) for x in maps], 1)


def focal(scores: Tensor, truth: Tensor) -> Tensor:
    p = torch.sigmoid(scores)
    right = p * truth + (1 - p) * (1 - truth)
    return (1 - right) ** 2 * F.binary_cross_entropy_with_logits(scores, truth, reduction="none")


def overlap(a: Tensor, b: Tensor) -> Tensor:
    """Generalised intersection over union of corners [..., 4]."""
    inner = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0).prod(-1)
    union = (a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1) - inner
    hull = (torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])).prod(-1)
    return inner / (union + 1e-6) - (hull - union) / (hull + 1e-6)


def corners(boxes: Tensor) -> Tensor:
    """Centres and sizes -> corners."""
    return torch.cat([boxes[..., :2] - boxes[..., 2:] / 2, boxes[..., :2] + boxes[..., 2:] / 2], -1)


class RetinaNet(nn.Module):
    """Lin et al. 2017: one anchor a cell, focal loss and smooth L1 of matched anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.fpn = FPN()
        self.scores = nn.Sequential(
            nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.ReLU(), nn.Conv2d(WIDTH, CLASSES, 3, padding=1)
        )
        self.boxes = nn.Sequential(nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.ReLU(), nn.Conv2d(WIDTH, 4, 3, padding=1))

    def forward(self, pixel_values: Tensor, kinds: Tensor, offsets: Tensor) -> Output:
        """kinds [batch, cells]: 0 for none; offsets [batch, cells, 4]"""
        maps = self.fpn(pixel_values)
        scores, boxes = _flat([self.scores(x) for x in maps], CLASSES), _flat([self.boxes(x) for x in maps], 4)
        truth = F.one_hot(kinds, CLASSES + 1)[..., 1:].to(scores.dtype)
        matched = (kinds > 0).to(scores.dtype)
        count = matched.sum().clamp(min=1)
        apart = F.smooth_l1_loss(boxes, offsets, reduction="none", beta=0.11).sum(-1)
        return {"loss": focal(scores, truth).sum() / count + (apart * matched).sum() / count, "scores": scores}


class FCOS(nn.Module):
    """Tian et al. 2019: distances to four sides from each cell, and how central it is."""

    def __init__(self) -> None:
        super().__init__()
        self.fpn = FPN()
        self.tower = nn.Sequential(nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.GroupNorm(4, WIDTH), nn.ReLU())
        self.scores, self.sides, self.centre = (nn.Conv2d(WIDTH, n, 3, padding=1) for n in (CLASSES, 4, 1))
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, pixel_values: Tensor, kinds: Tensor, distances: Tensor) -> Output:
        maps = [self.tower(x) for x in self.fpn(pixel_values)]
        scores = _flat([self.scores(x) for x in maps], CLASSES)
        sides = _flat([torch.exp(self.sides(x) * scale) for x, scale in zip(maps, self.scale, strict=True)], 4)
        centre = _flat([self.centre(x) for x in maps], 1)[..., 0]
        inside = (kinds > 0).float()
        truth = F.one_hot(kinds, CLASSES + 1)[..., 1:].float()
        wanted = distances + 0.1
        low, high = torch.minimum(wanted[..., :2], wanted[..., 2:]), torch.maximum(wanted[..., :2], wanted[..., 2:])
        central = torch.sqrt((low / high).prod(-1))
        areas = torch.cat([-sides[..., :2], sides[..., 2:]], -1), torch.cat([-wanted[..., :2], wanted[..., 2:]], -1)
        boxes = ((1 - overlap(*areas)) * central * inside).sum() / (central * inside).sum().clamp(min=1e-6)
        middles = F.binary_cross_entropy_with_logits(
            centre, central, weight=inside, reduction="sum"
        ) / inside.sum().clamp(min=1)
        return {"loss": focal(scores, truth).sum() / inside.sum().clamp(min=1) + boxes + middles}


class DETR(nn.Module):
    """Carion et al. 2020: queries and a given matching: `order` [batch, objects], the objects' queries."""

    def __init__(self, queries: int = 6) -> None:
        super().__init__()
        self.stages = backbone()
        self.queries = nn.Embedding(queries, WIDTH)
        self.places = nn.Parameter(torch.randn(16, WIDTH))
        self.body = nn.Transformer(WIDTH, 2, 1, 1, 32, 0.0, batch_first=True)
        self.scores = nn.Linear(WIDTH, CLASSES + 1)
        self.boxes = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))

    def forward(self, pixel_values: Tensor, order: Tensor, kinds: Tensor, wanted: Tensor) -> Output:
        x = pixel_values
        for stage in self.stages:
            x = stage(x)
        memory = x.flatten(2).transpose(1, 2) + self.places
        h = self.body(memory, self.queries.weight.expand(x.shape[0], -1, -1))
        scores, boxes = self.scores(h), torch.sigmoid(self.boxes(h))
        truth = torch.full(scores.shape[:2], CLASSES).scatter(1, order, kinds)
        weight = torch.cat([torch.ones(CLASSES), torch.tensor([0.1])])
        matched = boxes.gather(1, order[..., None].expand(-1, -1, 4))
        wanted = wanted * 0.5 + 0.1
        apart = F.l1_loss(matched, wanted) * 5 + 2 * (1 - overlap(corners(matched), corners(wanted))).mean()
        return {"loss": F.cross_entropy(scores.transpose(1, 2), truth, weight) + apart, "boxes": boxes}


class CenterNet(nn.Module):
    """Zhou et al. 2019: a heat map of centres with the penalty-reduced focal loss, sizes gathered at given cells."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, WIDTH, 3, 2), nn.ReLU(), conv(WIDTH, WIDTH, 3, 2), nn.ReLU())
        self.up = nn.ConvTranspose2d(WIDTH, WIDTH, 4, 2, 1)
        self.heat, self.size = nn.Conv2d(WIDTH, CLASSES, 1), nn.Conv2d(WIDTH, 2, 1)

    def forward(self, pixel_values: Tensor, heat: Tensor, cells: Tensor, sizes: Tensor) -> Output:
        x = F.relu(self.up(self.stem(pixel_values)))
        p = torch.sigmoid(self.heat(x)).clamp(1e-4, 1 - 1e-4)
        peak = (heat > 0.95).float()
        lost = -(torch.log(p) * (1 - p) ** 2 * peak + torch.log(1 - p) * p**2 * (1 - heat) ** 4 * (1 - peak))
        found = self.size(x).flatten(2).gather(2, cells[:, None].expand(-1, 2, -1)).transpose(1, 2)
        return {"loss": lost.sum() / peak.sum().clamp(min=1) + F.l1_loss(found, sizes)}


class RoIHead(nn.Module):
    """The second stage of Mask R-CNN (He et al. 2017): given boxes, aligned by bilinear sampling; classes, and a mask
    for the right class."""

    def __init__(self, size: int = 4) -> None:
        super().__init__()
        self.size = size
        self.stem = nn.Sequential(conv(3, WIDTH, 3, 2), nn.ReLU(), conv(WIDTH, WIDTH, 3, 2), nn.ReLU())
        self.scores = nn.Linear(WIDTH * size**2, CLASSES)
        self.masks = nn.Sequential(nn.ConvTranspose2d(WIDTH, WIDTH, 2, 2), nn.ReLU(), nn.Conv2d(WIDTH, CLASSES, 1))

    def forward(self, pixel_values: Tensor, boxes: Tensor, kinds: Tensor, masks: Tensor) -> Output:
        x = self.stem(pixel_values)
        count = boxes.shape[1]
        step = (torch.arange(self.size) + 0.5) / self.size
        low, high = boxes[..., :2] * 0.5, 0.5 + boxes[..., 2:] * 0.5
        at = (low[..., None, :] + (high - low)[..., None, :] * step[:, None]) * 2 - 1
        across = at[..., 0][:, :, None, :].expand(-1, -1, self.size, -1)
        down = at[..., 1][:, :, :, None].expand(-1, -1, -1, self.size)
        grid = torch.stack([across, down], -1).flatten(1, 2)
        cut = F.grid_sample(x, grid, align_corners=False)
        cut = cut.view(x.shape[0], WIDTH, count, self.size, self.size).transpose(1, 2).flatten(0, 1)
        right = kinds.flatten()
        found = self.masks(cut)[torch.arange(right.shape[0]), right]
        truth = (masks.flatten(0, 1) > 0.5).float()
        return {
            "loss": F.cross_entropy(self.scores(cut.flatten(1)), right)
            + F.binary_cross_entropy_with_logits(found, truth)
        }


class DeepLabV3Plus(nn.Module):
    """Chen et al. 2018: dilated convolutions of several rates, the image's mean beside them, and a decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.low = nn.Sequential(conv(3, WIDTH, 3, 2), nn.ReLU())
        self.high = nn.Sequential(conv(WIDTH, WIDTH, 3, 2), nn.ReLU())
        self.branches = nn.ModuleList(
            nn.Sequential(nn.Conv2d(WIDTH, 8, 3, padding=rate, dilation=rate, bias=False), nn.BatchNorm2d(8), nn.ReLU())
            for rate in (1, 2, 3)
        )
        self.mean = nn.Conv2d(WIDTH, 8, 1)
        self.project, self.narrow = conv(32, WIDTH, 1), conv(WIDTH, 8, 1)
        self.classifier = nn.Sequential(conv(WIDTH + 8, WIDTH), nn.ReLU(), nn.Conv2d(WIDTH, CLASSES, 1))

    def forward(self, pixel_values: Tensor) -> Output:
        low = self.low(pixel_values)
        high = self.high(low)
        mean = self.mean(F.adaptive_avg_pool2d(high, 1))
        wide = [*(branch(high) for branch in self.branches), F.interpolate(mean, size=high.shape[2:], mode="bilinear")]
        high = F.relu(self.project(torch.cat(wide, 1)))
        high = F.interpolate(high, size=low.shape[2:], mode="bilinear", align_corners=True)
        scores = self.classifier(torch.cat([high, F.relu(self.narrow(low))], 1))
        return {"logits": F.interpolate(scores, scale_factor=2.0, mode="bilinear").permute(0, 2, 3, 1)}


class PSPNet(nn.Module):
    """Zhao et al. 2017: means over several grids."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, WIDTH, 3, 2), nn.ReLU(), conv(WIDTH, WIDTH, 3, 2), nn.ReLU())
        self.parts = nn.ModuleList(nn.Conv2d(WIDTH, 4, 1) for _ in range(3))
        self.classifier = nn.Conv2d(WIDTH + 12, CLASSES, 1)

    def forward(self, pixel_values: Tensor) -> Output:
        x = self.stem(pixel_values)
        found = [x]
        for bins, part in zip((1, 2, 3), self.parts, strict=True):
            found.append(F.interpolate(part(F.adaptive_avg_pool2d(x, bins)), size=x.shape[2:], mode="bicubic"))
        scores = F.interpolate(self.classifier(torch.cat(found, 1)), size=pixel_values.shape[2:], mode="bilinear")
        return {"logits": scores.permute(0, 2, 3, 1)}


class Segformer(nn.Module):
    """Xie et al. 2021, of `transformers`, its scores at a quarter of the size."""

    def __init__(self) -> None:
        super().__init__()
        config = SegformerConfig(
            num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[8, 16], patch_sizes=[7, 3],
            strides=[4, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=16, num_labels=CLASSES,
        )  # fmt: skip
        self.model = SegformerForSemanticSegmentation(config)

    def forward(self, pixel_values: Tensor) -> Output:
        return {"logits": self.model(pixel_values).logits.permute(0, 2, 3, 1)}


def _orders(seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    order = torch.stack([torch.randperm(6, generator=generator)[:3] for _ in range(BATCH)])
    others = drawn(kinds=integers(CLASSES, BATCH, 3), wanted=uniform(BATCH, 3, 4))(seed)
    return {**images(SIDE)(seed), "order": order, **others}


IMAGES = images(SIDE)
FAMILIES: tuple[Family, ...] = (
    brief(
        "retinanet",
        RetinaNet,
        drawn(pixel_values=normal(BATCH, 3, SIDE, SIDE), kinds=integers(4, BATCH, 80), offsets=normal(BATCH, 80, 4)),
    ),
    brief(
        "fcos",
        FCOS,
        drawn(pixel_values=normal(BATCH, 3, SIDE, SIDE), kinds=integers(4, BATCH, 80), distances=uniform(BATCH, 80, 4)),
    ),
    brief("detr", DETR, _orders),
    brief(
        "centernet",
        CenterNet,
        drawn(
            pixel_values=normal(BATCH, 3, SIDE, SIDE),
            heat=uniform(BATCH, CLASSES, 16, 16),
            cells=integers(256, BATCH, 4),
            sizes=uniform(BATCH, 4, 2),
        ),
    ),
    brief(
        "mask_rcnn_head",
        RoIHead,
        drawn(
            pixel_values=normal(BATCH, 3, SIDE, SIDE),
            boxes=uniform(BATCH, 3, 4),
            kinds=integers(CLASSES, BATCH, 3),
            masks=uniform(BATCH, 3, 8, 8),
        ),
    ),
    brief("deeplab_v3_plus", DeepLabV3Plus, IMAGES, classes(CLASSES, BATCH, SIDE, SIDE)),
    brief("pspnet", PSPNet, IMAGES, classes(CLASSES, BATCH, SIDE, SIDE)),
    brief("segformer", Segformer, IMAGES, classes(CLASSES, BATCH, SIDE // 4, SIDE // 4)),
)
