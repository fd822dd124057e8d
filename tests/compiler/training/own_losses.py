"""Losses as users write them in PyTorch, each a case to train beside PyTorch: the same function on both sides."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.compiler.training.loss_cases import CLASS_WEIGHTS, Case, Feeds, both, labels, numbers, zero_one
from tests.compiler.training.small_models import BATCH, CLASSES, Tensors

FLAT, PIXELS = (BATCH, CLASSES), (BATCH, CLASSES, 4, 5)
LABELS, TRUTH = "i64[batch]", f"f32[batch,{CLASSES}]"


def focal(logits: Tensor, labels: Tensor, gamma: float = 2.0) -> Tensor:
    """Lin et al. 2017, one number a sample."""
    plain = F.cross_entropy(logits, labels, reduction="none")
    return (1 - torch.exp(-plain)) ** gamma * plain


def detached_focal(logits: Tensor, labels: Tensor) -> Tensor:
    """The factor weighs samples and gets no gradient."""
    plain = F.cross_entropy(logits, labels, reduction="none")
    return ((1 - torch.exp(-plain)).detach() ** 2 * plain).mean()


def sigmoid_focal(logits: Tensor, truth: Tensor) -> Tensor:
    p = torch.sigmoid(logits)
    plain = F.binary_cross_entropy_with_logits(logits, truth, reduction="none")
    right = p * truth + (1 - p) * (1 - truth)
    return ((0.25 * truth + 0.75 * (1 - truth)) * (1 - right) ** 2 * plain).sum() / logits.shape[0]


def boxes(raw: Tensor) -> Tensor:
    """[batch, 4 or more] -> corners [batch, 4]: left, top, right, bottom."""
    corner, size = torch.sigmoid(raw[:, :2]), torch.sigmoid(raw[:, 2:4]) + 0.1
    return torch.cat([corner, corner + size], 1)


def overlap(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Intersection over union, and the union."""
    inner = (torch.minimum(a[:, 2:], b[:, 2:]) - torch.maximum(a[:, :2], b[:, :2])).clamp(min=0).prod(1)
    union = (a[:, 2:] - a[:, :2]).prod(1) + (b[:, 2:] - b[:, :2]).prod(1) - inner
    return inner / union, union


def hull(a: Tensor, b: Tensor) -> Tensor:
    """Width and height of what holds both."""
    return torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])


def iou(features: Tensor, truth: Tensor) -> Tensor:
    return 1 - overlap(boxes(features), boxes(truth))[0]


def giou(features: Tensor, truth: Tensor) -> Tensor:
    """Rezatofighi et al. 2019."""
    a, b = boxes(features), boxes(truth)
    ratio, union = overlap(a, b)
    whole = hull(a, b).prod(1)
    return (1 - ratio + (whole - union) / whole).mean()


def diou(features: Tensor, truth: Tensor) -> Tensor:
    """Zheng et al. 2020."""
    a, b = boxes(features), boxes(truth)
    apart = ((a[:, :2] + a[:, 2:] - b[:, :2] - b[:, 2:]) ** 2).sum(1) / 4
    return (1 - overlap(a, b)[0] + apart / (hull(a, b) ** 2).sum(1)).mean()


def dice(logits: Tensor, truth: Tensor) -> Tensor:
    p = torch.softmax(logits, 1)
    return 1 - ((2 * (p * truth).sum((0, 2, 3)) + 1) / ((p + truth).sum((0, 2, 3)) + 1)).mean()


def contrastive(logits: Tensor, features: Tensor) -> Tensor:
    """InfoNCE between two views, both ways, as CLIP's; no targets."""
    similar = F.normalize(logits, dim=1) @ F.normalize(features, dim=1).T / 0.1
    own = torch.arange(similar.shape[0])
    return (F.cross_entropy(similar, own) + F.cross_entropy(similar.T, own)) / 2


def supervised_contrastive(features: Tensor, labels: Tensor) -> Tensor:
    """Khosla et al. 2020."""
    z = F.normalize(features, dim=1)
    itself = torch.eye(z.shape[0], dtype=torch.bool)
    scores = (z @ z.T / 0.5).masked_fill(itself, -1e9)
    same = (labels[:, None] == labels[None, :]) & ~itself
    log_p = scores - torch.logsumexp(scores, 1, keepdim=True)
    return -((log_p * same).sum(1) / same.sum(1).clamp(min=1)).mean()


def quantile(logits: Tensor, truth: Tensor) -> Tensor:
    off = truth - logits
    q = torch.linspace(0.1, 0.9, logits.shape[1])
    return torch.maximum(q * off, (q - 1) * off).mean(1)


def tweedie(logits: Tensor, truth: Tensor) -> Tensor:
    """Of the logarithm of the mean, power 1.5."""
    return (-truth.exp() * torch.exp(logits * -0.5) / -0.5 + torch.exp(logits * 0.5) / 0.5).mean()


def distillation(logits: Tensor, labels: Tensor, teacher: Tensor) -> Tensor:
    soft = F.kl_div(F.log_softmax(logits / 2, -1), F.softmax(teacher / 2, -1), reduction="batchmean") * 4
    return 0.3 * F.cross_entropy(logits, labels) + 0.7 * soft


def barlow(logits: Tensor, features: Tensor) -> Tensor:
    """Zbontar et al. 2021: the views' correlation is to be the identity."""
    a, b = ((z - z.mean(0)) / (z.std(0) + 1e-3) for z in (logits, features))
    wrong = a.T @ b / z_count(a) - torch.eye(a.shape[1])
    return (wrong**2).mean()


def z_count(z: Tensor) -> int:
    return z.shape[0]


def gaussian(logits: Tensor, features: Tensor, truth: Tensor) -> Tensor:
    """Negative log-likelihood of a mean and a variance."""
    return F.gaussian_nll_loss(logits, truth, F.softplus(features))


def smooth_ap(logits: Tensor, truth: Tensor) -> Tensor:
    """Pairs of scores in the wrong order, softly (RankNet)."""
    ahead = truth[:, :, None] > truth[:, None, :]
    return (F.softplus(logits[:, None, :] - logits[:, :, None]) * ahead).sum((1, 2)) / ahead.sum((1, 2)).clamp(min=1)


class Perceptual(nn.Module):
    """Differences seen by a frozen network."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.eye = nn.Sequential(nn.Conv2d(CLASSES, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3)).requires_grad_(
            False
        )

    def forward(self, logits: Tensor, truth: Tensor) -> Tensor:
        return F.l1_loss(self.eye(logits), self.eye(truth))


PERCEPTUAL = Perceptual()
WEIGHTED = nn.CrossEntropyLoss(weight=CLASS_WEIGHTS, label_smoothing=0.1)


def _case(
    model: str, function: Callable[..., Tensor], extra: Callable[[np.random.Generator], Feeds], **options: Any
) -> Case:
    """The function on both sides, by the names of its arguments or `inputs`; the mean where it gives a number for each
    sample."""
    given = [p.name for p in inspect.signature(getattr(function, "forward", function)).parameters.values()]
    names = options.get("inputs", [name for name in given if name != "gamma"])

    def loss(outputs: Tensors, feeds: Tensors) -> Tensor:
        return function(*({**feeds, **outputs}[name] for name in names)).mean()

    return Case(model, {"module": function, **options}, loss, extra)


def _truth(*shape: int) -> Callable[[np.random.Generator], Feeds]:
    return numbers("truth", *shape)


def nothing(rng: np.random.Generator) -> Feeds:
    return {}


FLAT_TRUTH: dict[str, Any] = {"targets": {"truth": TRUTH}}
PIXEL_TRUTH: dict[str, Any] = {"targets": {"truth": f"f32[batch,{CLASSES},4,5]"}}
OWN = {
    "focal": _case("perceptron", focal, labels(BATCH), targets={"labels": LABELS}),
    "detached focal": _case("perceptron", detached_focal, labels(BATCH), targets={"labels": LABELS}),
    "sigmoid focal": _case("perceptron", sigmoid_focal, zero_one("truth", *FLAT), **FLAT_TRUTH),
    "iou": _case("perceptron", iou, _truth(*FLAT), **FLAT_TRUTH),
    "giou": _case("perceptron", giou, _truth(*FLAT), **FLAT_TRUTH),
    "diou": _case("perceptron", diou, _truth(*FLAT), **FLAT_TRUTH),
    "dice": _case("images", dice, zero_one("truth", *PIXELS), **PIXEL_TRUTH),
    "contrastive": _case("perceptron", contrastive, nothing),
    "supervised contrastive": _case("perceptron", supervised_contrastive, labels(BATCH), targets={"labels": LABELS}),
    "triplet": _case(
        "perceptron",
        nn.TripletMarginLoss(margin=1.5),
        both(numbers("near", *FLAT), numbers("far", *FLAT)),
        inputs=["features", "near", "far"],
        targets={"near": TRUTH, "far": torch.zeros(FLAT)},
    ),
    "quantile": _case("perceptron", quantile, _truth(*FLAT), **FLAT_TRUTH),
    "tweedie": _case("perceptron", tweedie, _truth(*FLAT), **FLAT_TRUTH),
    "smoothing and class weights": _case(
        "perceptron", WEIGHTED, labels(BATCH), inputs=["logits", "labels"], targets={"labels": LABELS}
    ),
    "distillation": _case(
        "perceptron",
        distillation,
        both(labels(BATCH), numbers("teacher", *FLAT)),
        targets={"labels": np.zeros(BATCH, np.int64), "teacher": TRUTH},
    ),
    "barlow twins": _case("perceptron", barlow, nothing),
    "gaussian": _case("perceptron", gaussian, _truth(*FLAT), **FLAT_TRUTH),
    "pairs": _case("perceptron", smooth_ap, _truth(*FLAT), **FLAT_TRUTH),
    "margins": _case(
        "perceptron", nn.MultiMarginLoss(), labels(BATCH), inputs=["logits", "labels"], targets={"labels": LABELS}
    ),
    "perceptual": _case("images", PERCEPTUAL, _truth(*PIXELS), **PIXEL_TRUTH),
    "of the model's own input": _case(
        "tokens", lambda logits, input_ids: F.cross_entropy(logits.transpose(1, 2), input_ids), nothing
    ),
}
"""By name."""
