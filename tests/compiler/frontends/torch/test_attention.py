"""`scaled_dot_product_attention`: one head of keys and values for all queries, and views of what it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from pockengine import from_torch

MASK = torch.ones(5, 5, dtype=torch.bool).tril()


class MultiQuery(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.q, self.kv, self.options = nn.Linear(16, 16), nn.Linear(16, 8), options

    def forward(self, x: Tensor) -> Tensor:
        q = self.q(x).view(*x.shape[:2], 4, 4).transpose(1, 2)
        k, v = self.kv(x).unsqueeze(1).chunk(2, -1)
        return functional.scaled_dot_product_attention(q, k, v, **self.options)


@pytest.mark.parametrize(
    "options",
    [{}, {"is_causal": True}, {"attn_mask": MASK}, {"enable_gqa": True, "scale": 0.25}],
    ids=lambda options: "-".join(options) or "plain",
)
def test_one_head_of_keys_spreads_over_all_queries(options: dict[str, Any]) -> None:
    """What is imported is compared with the module; heads are not copied."""
    torch.manual_seed(0)
    graph = from_torch(MultiQuery(**options), torch.randn(2, 5, 16))
    (attention,) = (node for node in graph.nodes if node.op == "attention")
    assert [value.type.shape[1] for value in attention.inputs[:3]] == [4, 1, 1]


class Learned(nn.Module):
    """Learned queries, the same for all samples."""

    def __init__(self) -> None:
        super().__init__()
        self.queries, self.kv = nn.Parameter(torch.randn(1, 2, 3, 4)), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        k, v = (y.view(*x.shape[:2], 2, 4).transpose(1, 2) for y in self.kv(x).chunk(2, -1))
        return functional.scaled_dot_product_attention(self.queries, k, v).transpose(1, 2).flatten(2)


def test_queries_of_one_sample_spread_over_all() -> None:
    torch.manual_seed(0)
    graph = from_torch(Learned(), torch.randn(5, 6, 16), verify=True)
    assert graph.outputs["output"].type.shape == (5, 3, 8)


class Viewed(nn.Module):
    """Views what attention returned as a kernel's strides allow, without a copy."""

    def __init__(self, view: Callable[[Tensor], Tensor], **options: Any) -> None:
        super().__init__()
        self.qkv, self.view, self.options = nn.Linear(8, 24), view, options

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (y.view(*x.shape[:2], 2, 4).transpose(1, 2) for y in self.qkv(x).split(8, 2))
        return self.view(functional.scaled_dot_product_attention(q, k, v, **self.options).transpose(1, 2))


@pytest.mark.parametrize(
    "options", [{}, {"is_causal": True}, {"attn_mask": MASK}], ids=lambda o: "-".join(o) or "plain"
)
@pytest.mark.parametrize(
    "view",
    [
        lambda y: y.view(len(y), -1, 8),
        lambda y: y.view(torch.Size([2, 5, 8])).view(-1),
        lambda y: y.view(size=(-1, 8)),
    ],
    ids=["sizes", "a size", "by name"],
)
def test_attention_is_viewed(view: Callable[[Tensor], Tensor], options: dict[str, Any]) -> None:
    """The comparison of the import is the test: the strides are others while the module is traced."""
    torch.manual_seed(0)
    assert from_torch(Viewed(view, **options), torch.randn(2, 5, 8)).nodes
