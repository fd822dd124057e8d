"""Mixtures of experts. PyTorch's exporter has no word for a product of groups whose sizes are data, and neither has a
program of static shapes: here every expert is computed for every token and the router's weights choose; where there are
fewer choices than experts, the weights of those chosen are gathered instead, and only they are computed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.nn import functional


@contextlib.contextmanager
def experts_captured() -> Iterator[None]:
    """While the block runs, the experts of `transformers` are computed as this module says."""
    library = sys.modules.get("transformers.integrations.moe")
    if library is None:
        yield
        return
    gathered = library.batched_mm_experts_forward

    def choose(registry: Any, implementation: str, default: Callable[..., Any]) -> Callable[..., Any]:
        def forward(experts: Any, states: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
            few = chosen.numel() < experts.num_experts
            return gathered(experts, states, chosen, weights) if few else all_experts(experts, states, chosen, weights)

        return forward

    with mock.patch.object(library.ExpertsInterface, "get_interface", choose):
        yield


def all_experts(experts: Any, states: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """What an experts module of `transformers` computes.

    states   [tokens, width]
    chosen   [tokens, k], numbers of experts
    weights  [tokens, k], of the router; returns [tokens, width]"""
    count = experts.num_experts
    name = "gate_up_proj" if experts.has_gate else "up_proj"
    hidden = _each(states.unsqueeze(0), experts, name)
    hidden = experts._apply_gate(hidden) if experts.has_gate else experts.act_fn(hidden)
    results = _each(hidden, experts, "down_proj")
    if experts.has_post_expert_norm:
        results = experts.post_expert_norm(results)
    shares = (functional.one_hot(chosen, count).to(weights.dtype) * weights.unsqueeze(-1)).sum(1)
    return (results * shares.t().unsqueeze(-1)).sum(0).to(states.dtype)


def _each(x: Tensor, experts: Any, name: str) -> Tensor:
    """x [1 or experts, tokens, in] through each expert's layer: [experts, tokens, out]."""
    weight = getattr(experts, name)
    product = torch.matmul(x, weight if experts.is_transposed else weight.transpose(1, 2))
    return product + getattr(experts, f"{name}_bias").unsqueeze(1) if experts.has_bias else product


def grouped_product(x: Tensor, weights: Tensor, offs: Tensor | None = None, **others: Any) -> Tensor:
    """`torch.nn.functional.grouped_mm`: rows [rows, in] in groups that end at `offs`; weights [groups, in, out]."""
    if offs is None or x.dim() != 2 or weights.dim() != 3:
        return torch.matmul(x, weights)
    group = (torch.arange(x.shape[0]).unsqueeze(1) >= offs.unsqueeze(0)).sum(1)
    mine = functional.one_hot(group, weights.shape[0] + 1)[:, :-1].to(x.dtype)
    return (torch.matmul(x.unsqueeze(0), weights) * mine.t().unsqueeze(-1)).sum(0)
