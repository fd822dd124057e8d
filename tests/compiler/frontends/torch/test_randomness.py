"""Random numbers of a PyTorch module that are no dropout: refused by the name of the function and the module."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from pockengine import Recipe, from_torch
from pockengine.autodiff import train_graph
from pockengine.errors import RecipeError, UnsupportedOperatorError
from pockengine.recipe import resolve

Drawing = Callable[[Tensor], Tensor]
X = torch.randn(2, 4)


class Noise(nn.Module):
    def __init__(self, draw: Drawing) -> None:
        super().__init__()
        self.draw = draw

    def forward(self, x: Tensor) -> Tensor:
        return self.draw(x)


def model(draw: Drawing) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), nn.Sequential(Noise(draw)), nn.Linear(4, 3))


DRAWINGS: dict[str, Drawing] = {
    "torch.randn_like": lambda h: h + torch.randn_like(h),
    "torch.rand": lambda h: h * torch.rand(h.shape),
    "torch.randint": lambda h: h + torch.randint(0, 5, (4,)),
    "torch.bernoulli": lambda h: h * torch.bernoulli(h.sigmoid()),
    "torch.normal": lambda h: torch.normal(h, 1.0),
    "torch.randperm": lambda h: h[torch.randperm(2)],
    "torch.multinomial": lambda h: h + torch.multinomial(h.softmax(-1), 1),
    "Tensor.uniform_": lambda h: h + torch.empty_like(h).uniform_(),
    "Tensor.exponential_": lambda h: h + torch.empty_like(h).exponential_(),
    "torch.nn.functional.gumbel_softmax": lambda h: functional.gumbel_softmax(h, hard=True),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawing_in_evaluation_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=f"'{name}' in '1.0' draws random numbers"):
        from_torch(model(DRAWINGS[name]), (X,))


def test_what_is_drawn_and_not_used_does_no_harm() -> None:
    graph = from_torch(model(lambda h: (torch.rand([]), h * 2)[1]), (X,))
    assert all(node.op != "random" for node in graph.nodes)


class NoiseInTraining(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 0.1 * torch.randn_like(x) if self.training else x


def test_noise_of_training_mode_is_left_out_but_not_where_dropout_is_asked_for() -> None:
    graph = from_torch(nn.Sequential(nn.Linear(4, 4), NoiseInTraining(), nn.Dropout(0.5), nn.Linear(4, 3)), (X,))
    assert graph.draws == {"1": "NoiseInTraining"}
    recipe = Recipe(loss="mse")
    train_graph(graph, recipe, resolve(recipe, graph))
    recipe = Recipe(loss="mse", dropout=True)
    with pytest.raises(RecipeError, match=r"in training mode '1' \(NoiseInTraining\) draws random numbers"):
        train_graph(graph, recipe, resolve(recipe, graph))


def test_dropping_whole_samples_is_dropout() -> None:
    class DropPath(nn.Module):
        def __init__(self, drop_prob: float) -> None:
            super().__init__()
            self.drop_prob = drop_prob

        def forward(self, x: Tensor) -> Tensor:
            if not self.training:
                return x
            return x * torch.bernoulli(torch.full((len(x), 1), 1 - self.drop_prob)) / (1 - self.drop_prob)

    graph = from_torch(nn.Sequential(nn.Linear(4, 4), DropPath(0.25)), (X,))
    assert graph.draws == {}
    assert [node.attrs["p"] for node in graph.nodes if node.op == "dropout"] == [0.25]
