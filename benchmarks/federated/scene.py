"""What both sides train: the network, the digits, and who has which of them. Knows neither side."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

BATCH, LEARNING_RATE, MOMENTUM = 16, 0.05, 0.9
RECIPE = {
    "loss": "cross_entropy",
    "optimizer": {"name": "sgd", "lr": LEARNING_RATE, "momentum": MOMENTUM},
    "batch": BATCH,
    "update": [{"params": "head.*"}, {"params": "wide.weight", "channels": 0.25}, {"params": "wide.bias"}],
}
HELD_OUT = 397
CONCENTRATION = 0.3
"""Of the Dirichlet distribution of each class over the devices (Hsu et al. 2019): most have few classes."""


@dataclass(frozen=True)
class Plan:
    """One comparison."""

    agents: int
    rounds: int
    epochs: float
    seed: int

    def save(self, folder: Path) -> None:
        """Write it to `folder`."""
        (folder / "plan.json").write_text(json.dumps(asdict(self)))

    @staticmethod
    def load(folder: Path) -> Plan:
        """What was written to `folder`."""
        return Plan(**json.loads((folder / "plan.json").read_text()))


class Network(nn.Module):
    """Three convolutions, of which most is frozen, and a head: 8 x 8 pixels to ten classes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 32, 3, padding=1)
        self.middle = nn.Conv2d(32, 64, 3, padding=1, stride=2)
        self.wide = nn.Conv2d(64, 64, 3, padding=1)
        self.head = nn.Linear(64 * 4, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """[N, 1, 8, 8] to logits [N, 10]."""
        hidden = torch.relu(self.middle(torch.relu(self.stem(image))))
        hidden = torch.max_pool2d(torch.relu(self.wide(hidden)), 2)
        return torch.as_tensor(self.head(hidden.flatten(1)))


def untrained(seed: int) -> Network:
    """The network with the weights that both sides begin with."""
    torch.manual_seed(seed)
    return Network().eval()


def split(labels: NDArray[np.int64], plan: Plan) -> list[NDArray[np.int64]]:
    """The samples of each device: each class is dealt by proportions from a Dirichlet distribution. Everyone has at
    least a batch: who would have less takes from the one who has most."""
    rng = np.random.default_rng(plan.seed)
    owned: list[list[int]] = [[] for _ in range(plan.agents)]
    for label in np.unique(labels):
        mine = rng.permutation(np.flatnonzero(labels == label))
        shares = rng.dirichlet(np.full(plan.agents, CONCENTRATION))
        for device, part in enumerate(np.split(mine, (np.cumsum(shares)[:-1] * len(mine)).astype(int))):
            owned[device] += part.tolist()
    for few in owned:
        while len(few) < BATCH:
            few.append(max(owned, key=len).pop())
    return [np.array(sorted(mine)) for mine in owned]


def accuracy(network: Network, images: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """Share of the samples whose class the network names."""
    with torch.no_grad():
        guesses = network(torch.from_numpy(images)).argmax(1).numpy()
    return float((guesses == labels).mean())
