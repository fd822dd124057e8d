"""Optimizers that PyTorch does not have, written from their papers as a test's reference."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, arXiv 2302.06675, algorithm 2."""

    def __init__(self, params: Iterable[nn.Parameter], lr: float, betas: tuple[float, float], weight_decay: float):
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

    def __init__(
        self, params: Iterable[nn.Parameter], lr: float, betas: tuple[float, float], eps: float, weight_decay: float
    ):
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
