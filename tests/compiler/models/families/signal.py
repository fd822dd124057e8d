"""Small models of signals and plain vectors, as classes of our own."""

from __future__ import annotations

import torch
from torch import nn

from ..family import Family, classes, gaussian, settle

BATCH = 2


class MLP(nn.Module):
    """Two hidden layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(20, 32)
        self.second = nn.Linear(32, 32)
        self.head = nn.Linear(32, 5)

    def forward(self, features: torch.Tensor) -> dict[str, torch.Tensor]:
        hidden = torch.tanh(self.second(torch.relu(self.first(features))))
        return {"logits": self.head(hidden)}


def _mlp() -> nn.Module:
    torch.manual_seed(0)
    return settle(MLP(), gaussian("features", BATCH, 20))


FAMILIES = (
    Family(
        "mlp",
        _mlp,
        gaussian("features", BATCH, 20),
        classes(5, BATCH),
        [{"params": "head.*"}, {"params": "second.weight", "channels": 0.5}],
        lora="*",
    ),
)
