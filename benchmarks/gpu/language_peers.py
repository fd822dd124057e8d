"""PyTorch's training steps of a language model on a GPU: in bf16, frozen parameters without gradients, the best
attention that PyTorch has, a fused optimizer, Liger's fused loss where that is installed."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.gpu.peers import Peer, empty, most
from pockengine import Recipe
from pockengine.ir import Array
from pockengine.recipe import matches

PRECISION = "bf16"


class Adapted(nn.Module):
    """A frozen linear layer with a low-rank adapter beside it."""

    def __init__(self, layer: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        place: dict[str, Any] = {"device": layer.weight.device, "dtype": layer.weight.dtype}
        self.layer, self.scale = layer, alpha / rank
        self.lora_A = nn.Parameter(torch.empty(rank, layer.in_features, **place))
        self.lora_B = nn.Parameter(torch.zeros(layer.out_features, rank, **place))
        nn.init.uniform_(self.lora_A, -1 / math.sqrt(layer.in_features), 1 / math.sqrt(layer.in_features))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layer(x)
        return result + self.scale * (x @ self.lora_A.T @ self.lora_B.T)


def build(checkpoint: Path, recipe: Recipe, tokens: Array, mode: str, device: str) -> Peer:
    """A peer that has run three steps."""
    from transformers import AutoModelForCausalLM

    before = empty(device)
    if find_spec("liger_kernel"):
        from liger_kernel.transformers import apply_liger_kernel_to_llama  # type: ignore[import-not-found]

        apply_liger_kernel_to_llama(rope=False, swiglu=False, rms_norm=False, fused_linear_cross_entropy=True)
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.bfloat16, attn_implementation="sdpa").to(
        device
    )
    trained = _trained(model, recipe)
    optimizer, given = _optimizer(recipe, trained), torch.from_numpy(np.asarray(tokens)).to(device)

    def forward(given: Tensor) -> Tensor:
        loss: Tensor = model(input_ids=given, labels=given, use_cache=False).loss
        return loss

    run: Callable[[Tensor], Tensor] = forward if mode == "eager" else torch.compile(forward, mode=mode)

    def step() -> float:
        optimizer.zero_grad()
        loss = run(given)
        torch.autograd.backward(loss)
        optimizer.step()
        return float(loss.detach())

    for _ in range(3):
        step()
    return Peer(f"{mode}, {PRECISION}", step, most(device) - before)


def _trained(model: nn.Module, recipe: Recipe) -> list[nn.Parameter]:
    """What the recipe trains, alone with gradients."""
    if recipe.lora is not None:
        model.requires_grad_(False)
        for name, module in list(model.named_modules()):
            if isinstance(module, nn.Linear) and any(matches(one, f"{name}.weight") for one in recipe.lora.params):
                parent, _, own = name.rpartition(".")
                setattr(model.get_submodule(parent), own, Adapted(module, recipe.lora.rank, recipe.lora.alpha))
    else:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(any(rule.selects(name) for rule in recipe.update))
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def _optimizer(recipe: Recipe, trained: list[nn.Parameter]) -> torch.optim.Optimizer:
    """Raises ModuleNotFoundError where state in 8 bits needs a package that is not there."""
    chosen = recipe.to_mapping()["optimizer"]
    if chosen["name"] == "sgd":
        return torch.optim.SGD(trained, lr=chosen["lr"], fused=True)
    if chosen.get("state") == "int8":
        from bitsandbytes.optim import AdamW8bit  # type: ignore[import-not-found]

        optimizer: torch.optim.Optimizer = AdamW8bit(trained, lr=chosen["lr"])
        return optimizer
    return torch.optim.AdamW(trained, lr=chosen["lr"], fused=True)
