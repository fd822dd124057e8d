"""A recipe's optimizer in PyTorch: PyTorch's own where it has it, Lion and LAMB from their papers. Written beside the
compiler's updates, not from them: it is what those are compared with. Imported only where PyTorch is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from ...recipe import Clip, Optimizer, RateSchedule
from ...recipe.optimizer import SGD, Adafactor, Adam, AdamW
from ...recipe.optimizer import Lamb as LambSettings
from ...recipe.optimizer import Lion as LionSettings


def optimizer_of(settings: Optimizer, leaves: Mapping[str, nn.Parameter]) -> torch.optim.Optimizer:
    """The optimizer over these parameters, each with its own rate and weight decay."""
    groups: list[dict[str, Any]] = []
    for name, leaf in leaves.items():
        lr, decay = settings.rates_of(name)
        groups.append({"params": [leaf], "lr": lr, "weight_decay": decay, "base_lr": lr})
    match settings:
        case SGD():
            return torch.optim.SGD(groups, momentum=settings.momentum, nesterov=settings.nesterov)
        case AdamW():
            return torch.optim.AdamW(groups, betas=settings.betas, eps=settings.eps)
        case Adam():
            return torch.optim.Adam(groups, betas=settings.betas, eps=settings.eps)
        case Adafactor():
            options = {"beta2_decay": settings.beta2_decay, "eps": settings.eps, "d": settings.d}
            return torch.optim.Adafactor(groups, **options)  # type: ignore[arg-type]
        case LionSettings():
            return Lion(groups, settings.lr, settings.betas, settings.weight_decay)
        case LambSettings():
            return Lamb(groups, settings.lr, settings.betas, settings.eps, settings.weight_decay)
    raise NotImplementedError(f"there is no optimizer '{settings.name}' in PyTorch")


def set_rates(optimizer: torch.optim.Optimizer, schedule: RateSchedule, done: int) -> None:
    """The rates of the step after `done` steps."""
    for group in optimizer.param_groups:
        group["lr"] = group["base_lr"] * factor(schedule, done)


def factor(schedule: RateSchedule, done: int) -> float:
    """What a schedule multiplies rates with after `done` steps (see docs/recipes.md)."""
    if done < schedule.warmup:
        return schedule.warmup_start + (1 - schedule.warmup_start) * done / schedule.warmup
    after = done - schedule.warmup
    if schedule.name == "constant":
        return 1.0
    if schedule.name == "step":
        assert schedule.every is not None
        return float(schedule.gamma ** (after // schedule.every))
    assert schedule.steps is not None
    progress = min(after / (schedule.steps - schedule.warmup), 1.0)
    share = 1 - progress if schedule.name == "linear" else (1 + math.cos(math.pi * progress)) / 2
    return schedule.end + (1 - schedule.end) * share


def clip_gradients(clip: Clip | None, leaves: Iterable[nn.Parameter]) -> None:
    """Bound the gradients as the recipe says."""
    if clip is not None and clip.value is not None:
        nn.utils.clip_grad_value_(leaves, clip.value)
    elif clip is not None and clip.norm is not None:
        nn.utils.clip_grad_norm_(leaves, clip.norm)


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, arXiv 2302.06675, algorithm 2."""

    def __init__(self, params: Any, lr: float, betas: tuple[float, float], weight_decay: float):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for param in group["params"]:
                state = self.state[param]
                m = state.setdefault("m", torch.zeros_like(param))
                direction = (beta1 * m + (1 - beta1) * param.grad).sign() + group["weight_decay"] * param
                param -= group["lr"] * direction
                m.mul_(beta2).add_((1 - beta2) * param.grad)


class Lamb(torch.optim.Optimizer):
    """You et al. 2020, arXiv 1904.00962v5, algorithm 2, phi the identity."""

    def __init__(self, params: Any, lr: float, betas: tuple[float, float], eps: float, weight_decay: float):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for param in group["params"]:
                state = self.state[param]
                m = state.setdefault("m", torch.zeros_like(param))
                v = state.setdefault("v", torch.zeros_like(param))
                state["t"] = state.get("t", 0) + 1
                m.mul_(beta1).add_((1 - beta1) * param.grad)
                v.mul_(beta2).add_((1 - beta2) * param.grad.square())
                ratio = (m / (1 - beta1 ** state["t"])) / ((v / (1 - beta2 ** state["t"])).sqrt() + group["eps"])
                update = ratio + group["weight_decay"] * param
                trust = param.norm() / update.norm() if param.norm() > 0 and update.norm() > 0 else 1.0
                param -= group["lr"] * trust * update
