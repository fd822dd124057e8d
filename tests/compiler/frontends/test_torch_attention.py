"""`scaled_dot_product_attention` with one head of keys and values for all queries: multi-query attention."""

from __future__ import annotations

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
