"""Each loss and option of a recipe beside the same in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from pockengine.ir import Array
from pockengine.recipe import Recipe
from tests.compiler.training.small_models import BATCH, CLASSES, MODELS, TIME, Tensors

Feeds = dict[str, Array]
Loss = Callable[[Tensors, Tensors], torch.Tensor]
LR = 0.2
WEIGHTS = [0.5, 1.0, 2.0, 0.0, 1.5, 0.7]
CLASS_WEIGHTS = torch.tensor(WEIGHTS)

STEPS = 3


@dataclass(frozen=True)
class Case:
    """loss: the recipe's. extra: draws the extra inputs. torch: (outputs, feeds) -> the same loss."""

    model: str
    loss: Any
    torch: Loss
    extra: Callable[[np.random.Generator], Feeds]
    recipe: tuple[tuple[str, Any], ...] = ()

    def feeds(self, seed: int) -> Feeds:
        rng = np.random.default_rng(seed)
        return {**MODELS[self.model].inputs(rng), **self.extra(rng)}

    def of(self) -> Recipe:
        return Recipe(self.loss, {"name": "sgd", "lr": LR}, **dict(self.recipe))


def by_torch(case: Case) -> tuple[list[float], dict[str, Array]]:
    """Losses of the steps, the loss after them on the last batch, and the parameters."""
    torch.set_num_threads(1)
    model = MODELS[case.model]
    params = {name: torch.tensor(array, requires_grad=True) for name, array in model.build().data.items()}
    losses = []
    for step in range(STEPS):
        losses.append(_torch_loss(case, params, step))
        losses[-1].backward()
        with torch.no_grad():
            for param in params.values():
                if param.grad is not None:
                    param -= LR * param.grad
                    param.grad = None
    losses.append(_torch_loss(case, params, STEPS - 1))
    return [loss.item() for loss in losses], {name: param.detach().numpy() for name, param in params.items()}


def _torch_loss(case: Case, params: Tensors, step: int) -> torch.Tensor:
    feeds = {name: torch.tensor(array) for name, array in case.feeds(step).items()}
    return case.torch(MODELS[case.model].forward(params, feeds), feeds)


def labels(*shape: int, ignored: int | None = None) -> Callable[[np.random.Generator], Feeds]:
    """Class numbers, every fourth of them `ignored`."""

    def draw(rng: np.random.Generator) -> Feeds:
        drawn = rng.integers(0, CLASSES, shape)
        if ignored is not None:
            drawn.reshape(-1)[::4] = ignored
        return {"labels": drawn}

    return draw


def numbers(name: str, *shape: int) -> Callable[[np.random.Generator], Feeds]:
    return lambda rng: {name: rng.standard_normal(shape).astype(np.float32)}


def zero_one(name: str, *shape: int) -> Callable[[np.random.Generator], Feeds]:
    return lambda rng: {name: (rng.random(shape) < 0.6).astype(np.float32)}


def both(*draws: Callable[[np.random.Generator], Feeds]) -> Callable[[np.random.Generator], Feeds]:
    return lambda rng: {name: array for draw in draws for name, array in draw(rng).items()}


def classified(output: torch.Tensor, target: torch.Tensor, **options: Any) -> torch.Tensor:
    """PyTorch's cross_entropy for classes last."""
    return F.cross_entropy(output.reshape(-1, CLASSES), target.reshape(-1), **options)


def masked_mean(losses: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    mask = mask.reshape(mask.shape + (1,) * (losses.ndim - mask.ndim)).expand_as(losses).float()
    return (losses * mask).sum() / mask.sum()


def distilled(student: torch.Tensor, teacher: torch.Tensor, t: float) -> torch.Tensor:
    """Hinton's, with PyTorch's reduction over all positions."""
    student, teacher = (x.reshape(-1, CLASSES) / t for x in (student, teacher))
    return t * t * F.kl_div(F.log_softmax(student, -1), F.softmax(teacher, -1), reduction="batchmean")


def _causal(outputs: Tensors, feeds: Tensors, **options: Any) -> torch.Tensor:
    return classified(outputs["logits"][:, :-1], feeds["labels"][:, 1:], **options)


def _masked_causal(outputs: Tensors, feeds: Tensors) -> torch.Tensor:
    losses = F.cross_entropy(outputs["logits"][:, :-1].transpose(1, 2), feeds["input_ids"][:, 1:], reduction="none")
    return masked_mean(losses, feeds["attention_mask"][:, 1:])


def _masked_weighted(outputs: Tensors, feeds: Tensors) -> torch.Tensor:
    """Mask, class weights, smoothing and a custom ignored label at once."""
    target = feeds["labels"]
    losses = F.cross_entropy(
        outputs["logits"].transpose(1, 2), target, CLASS_WEIGHTS, ignore_index=2, reduction="none", label_smoothing=0.1
    )
    counted = feeds["mask"] * (target != 2)
    return (losses * counted).sum() / (CLASS_WEIGHTS[target] * counted).sum()


def _sample_weighted(outputs: Tensors, feeds: Tensors) -> torch.Tensor:
    losses = F.cross_entropy(outputs["logits"].transpose(1, 2), feeds["labels"], reduction="none")
    counted = (feeds["labels"] != -100) * feeds["sample_weight"][:, None]
    return (losses * counted).sum() / counted.sum()


def _two_heads(outputs: Tensors, feeds: Tensors) -> torch.Tensor:
    total = F.cross_entropy(outputs["logits"], feeds["labels"], label_smoothing=0.1)
    total = total + 0.5 * distilled(outputs["logits"], outputs["features"].detach(), 2.0)
    return total + 3.0 * masked_mean((outputs["features"] - feeds["truth"]).abs(), feeds["mask"])


WHOLE, FLAT, PIXELS = (BATCH, TIME), (BATCH, CLASSES), (BATCH, 4, 5)
CE, HEAD = {"name": "cross_entropy"}, {"output": "logits"}
TWO_HEADS = [
    {**CE, **HEAD, "label_smoothing": 0.1},
    {"name": "kl", **HEAD, "against": "features", "temperature": 2, "weight": 0.5},
    {"name": "l1", "output": "features", "target": "truth", "mask": "mask", "weight": 3},
]
CASES = {
    "plain": Case("perceptron", CE, lambda o, f: classified(o["logits"], f["labels"]), labels(BATCH)),
    "tokens": Case("tokens", CE, lambda o, f: classified(o["logits"], f["labels"]), labels(*WHOLE, ignored=-100)),
    "smoothing": Case(
        "tokens",
        {**CE, "label_smoothing": 0.2},
        lambda o, f: classified(o["logits"], f["labels"], label_smoothing=0.2),
        labels(*WHOLE, ignored=-100),
    ),
    "class weights": Case(
        "tokens",
        {**CE, "class_weights": WEIGHTS},
        lambda o, f: classified(o["logits"], f["labels"], weight=CLASS_WEIGHTS),
        labels(*WHOLE, ignored=-100),
    ),
    "ignored class": Case(
        "tokens",
        {**CE, "ignore_index": 3},
        lambda o, f: classified(o["logits"], f["labels"], ignore_index=3),
        labels(*WHOLE),
    ),
    "ignored 255": Case(
        "tokens",
        {**CE, "ignore_index": 255, "class_weights": WEIGHTS, "label_smoothing": 0.3},
        lambda o, f: classified(o["logits"], f["labels"], ignore_index=255, weight=CLASS_WEIGHTS, label_smoothing=0.3),
        labels(*WHOLE, ignored=255),
    ),
    "all at once": Case(
        "tokens",
        {**CE, "ignore_index": 2, "class_weights": WEIGHTS, "label_smoothing": 0.1, "mask": "mask"},
        _masked_weighted,
        both(labels(*WHOLE), zero_one("mask", *WHOLE)),
    ),
    "segmentation": Case(
        "images",
        {**CE, "axis": 1, "class_weights": WEIGHTS, "ignore_index": 255},
        lambda o, f: F.cross_entropy(o["logits"], f["labels"], weight=CLASS_WEIGHTS, ignore_index=255),
        labels(*PIXELS, ignored=255),
    ),
    "causal": Case("tokens", "causal_lm", _causal, labels(*WHOLE, ignored=-100)),
    "causal smoothed": Case(
        "tokens",
        {"name": "causal_lm", "label_smoothing": 0.1, "class_weights": WEIGHTS},
        lambda o, f: _causal(o, f, label_smoothing=0.1, weight=CLASS_WEIGHTS),
        labels(*WHOLE, ignored=-100),
    ),
    "causal of its own input": Case(
        "tokens",
        {"name": "causal_lm", "target": "input_ids", "mask": "attention_mask"},
        _masked_causal,
        lambda rng: {},
    ),
    "bce": Case(
        "perceptron",
        {"name": "bce_with_logits", **HEAD},
        lambda o, f: F.binary_cross_entropy_with_logits(o["logits"], f["labels"]),
        zero_one("labels", *FLAT),
    ),
    "bce of many": Case(
        "perceptron",
        {"name": "bce_with_logits", **HEAD, "pos_weight": [1, 2, 3, 4, 0, 0.5]},
        lambda o, f: F.binary_cross_entropy_with_logits(
            o["logits"], f["labels"], pos_weight=torch.tensor([1, 2, 3, 4, 0, 0.5])
        ),
        zero_one("labels", *FLAT),
    ),
    "bce of pixels": Case(
        "images",
        {"name": "bce_with_logits", "pos_weight": WEIGHTS, "axis": 1},
        lambda o, f: F.binary_cross_entropy_with_logits(
            o["logits"], f["labels"], pos_weight=CLASS_WEIGHTS.reshape(-1, 1, 1)
        ),
        zero_one("labels", BATCH, CLASSES, 4, 5),
    ),
    "bce masked": Case(
        "perceptron",
        {"name": "bce_with_logits", **HEAD, "pos_weight": 2.5, "mask": "mask"},
        lambda o, f: masked_mean(
            F.binary_cross_entropy_with_logits(
                o["logits"], f["labels"], pos_weight=torch.tensor(2.5), reduction="none"
            ),
            f["mask"],
        ),
        both(zero_one("labels", *FLAT), zero_one("mask", BATCH)),
    ),
    "mse": Case(
        "perceptron",
        {"name": "mse", "output": "features"},
        lambda o, f: F.mse_loss(o["features"], f["labels"]),
        numbers("labels", *FLAT),
    ),
    "l1": Case(
        "perceptron", {"name": "l1", **HEAD}, lambda o, f: F.l1_loss(o["logits"], f["labels"]), numbers("labels", *FLAT)
    ),
    "huber": Case(
        "perceptron",
        {"name": "huber", **HEAD},
        lambda o, f: F.huber_loss(o["logits"], f["labels"]),
        numbers("labels", *FLAT),
    ),
    "huber masked": Case(
        "tokens",
        {"name": "huber", "delta": 0.4, "mask": "attention_mask", "target": "truth", "weight": 2},
        lambda o, f: (
            2 * masked_mean(F.huber_loss(o["logits"], f["truth"], delta=0.4, reduction="none"), f["attention_mask"])
        ),
        numbers("truth", *WHOLE, CLASSES),
    ),
    "kl": Case(
        "perceptron",
        {"name": "kl", **HEAD},
        lambda o, f: distilled(o["logits"], f["teacher_logits"], 1.0),
        numbers("teacher_logits", *FLAT),
    ),
    "kl softened": Case(
        "tokens",
        {"name": "kl", "temperature": 3, "target": "teacher"},
        lambda o, f: distilled(o["logits"], f["teacher"], 3.0),
        numbers("teacher", *WHOLE, CLASSES),
    ),
    "kl of pixels": Case(
        "images",
        {"name": "kl", "temperature": 2, "axis": 1},
        lambda o, f: distilled(o["logits"].movedim(1, -1), f["teacher_logits"].movedim(1, -1), 2.0),
        numbers("teacher_logits", BATCH, CLASSES, 4, 5),
    ),
    "kl against an output": Case(
        "perceptron",
        [{"name": "kl", **HEAD, "against": "features"}, {"name": "mse", "output": "features"}],
        lambda o, f: distilled(o["logits"], o["features"].detach(), 1.0) + F.mse_loss(o["features"], f["labels"]),
        numbers("labels", *FLAT),
    ),
    "two heads": Case(
        "perceptron", TWO_HEADS, _two_heads, both(labels(BATCH), numbers("truth", *FLAT), zero_one("mask", BATCH))
    ),
    "own": Case("own_loss", "output", lambda o, f: o["loss"], lambda rng: {}),
    "own and another": Case(
        "own_loss",
        [{"name": "output", "output": "loss", "weight": 0.5}, {**CE, **HEAD}],
        lambda o, f: 0.5 * o["loss"] + F.cross_entropy(o["logits"], f["labels"]),
        labels(BATCH),
    ),
    "partial": Case(
        "tokens",
        CE,
        _sample_weighted,
        lambda rng: {
            **labels(*WHOLE, ignored=-100)(rng),
            "sample_weight": np.asarray([1, 0.5, 0, 2], np.float32),
        },
        (("last_batch", "partial"),),
    ),
    "partial regression": Case(
        "perceptron",
        {"name": "mse", **HEAD, "mask": "mask"},
        lambda o, f: masked_mean((o["logits"] - f["labels"]) ** 2, f["mask"] * f["sample_weight"]),
        lambda rng: {
            **both(numbers("labels", *FLAT), zero_one("mask", BATCH))(rng),
            "mask": np.asarray([0, 1, 1, 1], np.float32),
            "sample_weight": np.asarray([1, 1, 0, 0], np.float32),
        },
        (("last_batch", "partial"),),
    ),
}
