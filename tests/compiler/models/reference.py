"""The PyTorch side of a comparison: the same model, data, optimizer and update scheme, step by step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext

import torch

from pockengine.ir import Array
from pockengine.recipe import ALL, SGD, AdamW, Channels, Optimizer, Recipe, Scheme

from ..training.lora_models import adapt
from .family import Family, named


def train(
    family: Family,
    scheme: Scheme,
    recipe: Recipe,
    adapters: Mapping[str, Array],
    steps: int,
    narrow: Collection[str] = (),
    within: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> tuple[list[float], dict[str, Array]]:
    """Losses of `steps` training steps, one new batch each, and the final tensors by name; `adapters` are the initial
    contents of low-rank adapters by name, `narrow` the parameters that lie in bf16 from step to step, rounded to the
    nearest. Losses and gradients are computed `within` a context.

    PyTorch knows no channel-sparse update, so it is emulated: the gradient outside the channels is zeroed before the
    step and the weight there restored after it (weight decay would move it)."""
    torch.set_num_threads(1)  # PyTorch's spinning threads are many times slower where tests run side by side
    module = family.build()
    if recipe.lora:
        adapt(module, adapters, recipe.lora.alpha)
    masks: dict[str, torch.Tensor] = {}
    for key, parameter in module.named_parameters():
        update = scheme.of(key)
        parameter.requires_grad_(update == ALL or isinstance(update, Channels))
        if isinstance(update, Channels):
            masks[key] = _mask(parameter, update)
    trained = {key: parameter for key, parameter in module.named_parameters() if parameter.requires_grad}
    rounded = [parameter for key, parameter in module.named_parameters() if key in narrow]
    _round(rounded)
    torch_optimizer = _optimizer(recipe.optimizer, list(trained.values()))
    losses = []
    for step in range(steps):
        torch_optimizer.zero_grad()
        with within():
            loss = family.criterion(named(module(**family.inputs(step))), family.targets(step))
            loss.backward()
        before = {key: trained[key].detach().clone() for key in masks}
        for key, mask in masks.items():
            gradient = trained[key].grad
            assert gradient is not None
            gradient.mul_(mask)
        torch_optimizer.step()
        with torch.no_grad():
            for key, mask in masks.items():
                trained[key].copy_(torch.where(mask.bool(), trained[key], before[key]))
        _round(rounded)
        losses.append(loss.item())
    return losses, _state(module)


def _round(parameters: list[torch.nn.Parameter]) -> None:
    with torch.no_grad():
        for parameter in parameters:
            parameter.copy_(parameter.bfloat16())


def _state(module: torch.nn.Module) -> dict[str, Array]:
    """The floating-point tensors of `state_dict`, tied ones once, under their first name."""
    kept = module.state_dict().keys()
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {
        key: tensor.detach().numpy().copy()
        for key, tensor in tensors.items()
        if key in kept and tensor.is_floating_point()
    }


def _mask(parameter: torch.Tensor, update: Channels) -> torch.Tensor:
    mask = torch.zeros_like(parameter)
    mask.index_fill_(update.axis, torch.tensor(update.indices), 1.0)
    return mask


def _optimizer(settings: Optimizer, parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
    if isinstance(settings, SGD):
        return torch.optim.SGD(
            parameters, lr=settings.lr, momentum=settings.momentum, weight_decay=settings.weight_decay
        )
    assert isinstance(settings, AdamW)
    return torch.optim.AdamW(
        parameters, lr=settings.lr, betas=settings.betas, eps=settings.eps, weight_decay=settings.weight_decay
    )
