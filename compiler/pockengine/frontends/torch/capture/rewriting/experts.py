"""Mixtures of experts. PyTorch's exporter has no word for a product of groups whose sizes are data, and neither has a
program of static shapes: here every expert is computed for every token and the router's weights choose; where there are
fewer choices than experts, the weights of those chosen are gathered instead, and only they are computed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional


@contextlib.contextmanager
def experts_captured(module: nn.Module) -> Iterator[None]:
    """While the block runs, the experts of `transformers` within a module are computed as this module says."""
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

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(library.ExpertsInterface, "get_interface", choose))
        for part in module.modules():
            if (forward := _without_loop(part)) is not None:
                stack.enter_context(mock.patch.object(part, "forward", forward))
        yield


def _without_loop(part: Any) -> Callable[..., Any] | None:
    """What stands in for the `forward` of an older class of experts, which loops over those that were chosen, or of
    their router; None for any other module."""
    if isinstance(part, nn.ModuleDict) and hasattr(part, "num_experts"):
        return partial(_modules, part)
    return partial(_LOOPS[name], part) if (name := type(part).__name__) in _LOOPS else None


def _modules(experts: Any, states: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """Each expert a module (Switch, NLLB). chosen: numbers [tokens, k], or already [tokens, k, experts]."""
    kept = 1.0 - getattr(experts, "moe_token_dropout", 0.0)  # as evaluation scales what training would drop
    shares = _shares(chosen, weights, experts.num_experts) * kept
    results = [experts[f"expert_{i}"](states) * shares[:, i : i + 1] for i in range(experts.num_experts)]
    return torch.stack(results).sum(0).to(states.dtype)


def _dbrx(experts: Any, states: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """The experts' weights lie below each other."""
    rows = states.reshape(-1, experts.hidden_size)
    shares = _shares(chosen, weights, experts.num_experts)
    shape = (experts.num_experts, experts.ffn_hidden_size, experts.hidden_size)
    w, v, out = (getattr(experts.mlp, name).view(shape) for name in ("w1", "v1", "w2"))
    results = [experts.mlp(rows, w[i], v[i], out[i]) * shares[:, i : i + 1] for i in range(experts.num_experts)]
    return torch.stack(results).sum(0).view(states.shape[0], -1, experts.hidden_size)


def _longcat(experts: Any, states: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """The last experts do nothing with a token."""
    shares = _shares(chosen, weights, experts.total_experts)
    routed = 0 if experts.gate_up_proj is None else experts.num_routed_experts
    results = [states * shares[:, routed:].sum(1, keepdim=True)]
    for i in range(routed):
        gate, up = functional.linear(states, experts.gate_up_proj[i]).chunk(2, dim=-1)
        result = functional.linear(experts.act_fn(gate) * up, experts.down_proj[i])
        results.append(result * shares[:, i : i + 1])
    return torch.stack(results).sum(0).to(states.dtype)


def _jetmoe_routing(router: Any, states: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Tokens in the order of their experts, and how many each expert has: a tensor in place of numbers."""
    logits = router.layer(states).float()
    best, chosen = logits.topk(router.top_k, dim=1)
    shares = torch.softmax(best, dim=1).type_as(states).flatten()
    sizes = functional.one_hot(chosen, router.num_experts).sum((0, 1))
    order = chosen.flatten().sort(0)[1]
    return order, order.div(router.top_k, rounding_mode="trunc"), shares[order], sizes, logits


def _jetmoe(experts: Any, rows: Tensor, sizes: Tensor) -> Tensor:
    """Rows in the order of their experts."""
    return grouped_product(rows, experts.weight.transpose(1, 2), sizes.cumsum(0))


_LOOPS: dict[str, Callable[..., Any]] = {
    "DbrxExperts": _dbrx,
    "LongcatFlashExperts": _longcat,
    "JetMoeTopKGating": _jetmoe_routing,
    "JetMoeParallelExperts": _jetmoe,
}
"""By the class of `transformers`."""


def _shares(chosen: Tensor, weights: Tensor, count: int) -> Tensor:
    """What each expert's result counts for each token: [tokens, experts]."""
    mask = chosen != 0 if chosen.dim() == 3 else functional.one_hot(chosen.long(), count)
    return (mask.to(weights.dtype) * weights.unsqueeze(-1)).sum(1)


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
    shares = _shares(chosen, weights, count)
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
