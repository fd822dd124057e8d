"""PyTorch's training steps of a language model on a GPU: in bf16, frozen parameters without gradients, the best
attention that PyTorch has, a fused optimizer, Liger's fused loss where that is installed; where ours has frozen weights
in fewer bits, also torchao's products in float8 and weights in NF4."""

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
_IN_FEWER_BITS = {"fp8": "float8", "int4": "nf4"}
"""What torchao has, by what a recipe's frozen weights are."""
_NF4_BLOCK = 64
"""Numbers that share a scale; up to 256 scales share one of their own, as in QLoRA."""


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


def precisions_of(recipe: Recipe) -> tuple[str, ...]:
    """Those of its peers."""
    fewer = None if recipe.frozen is None else _IN_FEWER_BITS.get(recipe.frozen.weights)
    return (PRECISION,) if fewer is None else (PRECISION, fewer)


def build(checkpoint: Path, recipe: Recipe, tokens: Array, mode: str, precision: str, device: str) -> Peer:
    """A peer that has run three steps. Raises ModuleNotFoundError where it needs a package that is not there."""
    from transformers import AutoModelForCausalLM

    before = empty(device)
    if find_spec("liger_kernel"):
        from liger_kernel.transformers import apply_liger_kernel_to_llama  # type: ignore[import-not-found]

        apply_liger_kernel_to_llama(rope=False, swiglu=False, rms_norm=False, fused_linear_cross_entropy=True)
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.bfloat16, attn_implementation="sdpa").to(
        device
    )
    trained = _trained(model, recipe)
    if precision != PRECISION:
        _reduce(model, precision)
        empty(device)  # the weights that were there before
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
    return Peer(f"{mode}, {precision}", step, most(device) - before)


def _reduce(model: nn.Module, precision: str) -> None:
    """Linear layers but the last, the vocabulary's: products in float8, or frozen weights in NF4."""
    layers = {name: one for name, one in model.named_modules() if isinstance(one, nn.Linear) and "lm_head" not in name}
    if precision == "float8":
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training  # type: ignore[import-not-found]

        emulate = next(model.parameters()).device.type == "cpu"
        chosen = Float8LinearConfig(emulate=emulate)
        convert_to_float8_training(model, config=chosen, module_filter_fn=lambda _, name: name in layers)
        return
    from torchao.quantization import to_nf4  # type: ignore[import-not-found]

    for layer in layers.values():
        if not layer.weight.requires_grad:
            shared = math.gcd(layer.weight.numel() // _NF4_BLOCK, 256)
            made = to_nf4(layer.weight.detach(), _NF4_BLOCK, shared)
            layer.weight = nn.Parameter(made, requires_grad=False)


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
