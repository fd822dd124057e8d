"""Parameters and buffers without an axis, from the module to the trained tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import pockengine as pock
from pockengine.artifact import Artifact
from pockengine.errors import RecipeError


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.scale = nn.Parameter(torch.tensor(0.25))
        self.register_buffer("offset", torch.tensor(0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x) * self.scale.exp() + self.offset


def test_a_model_with_scalars_trains_as_pytorch_does(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, x, y = Scaled(), torch.randn(2, 4), torch.randn(2, 3)
    graph = pock.from_torch(module, x)
    recipe = pock.Recipe(loss="mse", optimizer={"name": "sgd", "lr": 0.1}, update="full")
    pock.compile(graph, recipe, target="host").save(tmp_path / "scalars.pock")
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    batch = {"x": x.numpy(), "labels": y.numpy()}
    with Artifact.open(tmp_path / "scalars.pock").load() as session:
        for _ in range(3):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(module(x), y)
            loss.backward()
            optimizer.step()
            assert np.isclose(session.step(batch), loss.item(), rtol=1e-5)
        found = session.state()
    assert found.keys() == module.state_dict().keys()
    for name, tensor in module.state_dict().items():
        assert found[name].shape == tuple(tensor.shape)
        np.testing.assert_allclose(found[name], tensor.numpy(), rtol=1e-5, err_msg=name)


def test_an_input_without_an_axis_is_refused() -> None:
    class Divided(nn.Linear):
        def forward(self, x: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            return super().forward(x) / temperature

    graph = pock.from_torch(Divided(4, 3), (torch.randn(2, 4), torch.tensor(2.0)))
    with pytest.raises(RecipeError, match="the input 'temperature' is one number and has no axis of samples"):
        pock.compile(graph, pock.Recipe(loss="mse"))
