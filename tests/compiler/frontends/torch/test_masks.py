"""Boolean masks as indices, and inputs whose contents are fixed: what is imported computes what the module computes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pockengine import from_torch
from pockengine.errors import ModelError
from pockengine.interp import evaluate
from tests.sweeps import some

Expression = Callable[["Small", Tensor, Tensor], Tensor]
DECIDE = "the contents of tensors decide"
IDS = torch.tensor([[3, 4, 5, 5, 0], [1, 3, 5, 6, 6]])


class Small(nn.Module):
    def __init__(self, expression: Expression) -> None:
        super().__init__()
        self.fc, self.rows, self.row = nn.Linear(4, 4), nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(4))
        self.expression = expression

    def forward(self, x: Tensor, ids: Tensor) -> Tensor:
        return self.expression(self, x, ids)


def _assigned(value: Callable[[Small], Tensor | float], token: int) -> Expression:
    def expression(m: Small, x: Tensor, ids: Tensor) -> Tensor:
        h = m.fc(x).clone()
        h[ids == token] = value(m)
        return h

    return expression


def _elements(m: Small, x: Tensor, ids: Tensor) -> Tensor:
    h = m.fc(x).clone()
    h[h > 0.5] = 1.0
    return h.masked_scatter(h < -1.0, m.fc(x) * 2)


def _at_places(value: Callable[[Small], Tensor | float]) -> Expression:
    def expression(m: Small, x: Tensor, ids: Tensor) -> Tensor:
        h = m.fc(x).clone()
        h[torch.where(ids == 5)] = value(m)
        return h

    return expression


def _at_scalars(m: Small, x: Tensor, ids: Tensor) -> Tensor:
    """Rows and columns as lists of scalars."""
    kept = torch.ones(2, 7)
    rows, columns = zip(*torch.stack([torch.tensor([0, 1, 1]), ids[0, :3]], 1), strict=True)
    kept[rows, columns] = 0.0
    return m.fc(x) * kept[:, :1, None] + kept[list(rows), list(columns)].sum() + kept[:, 3:4, None]


EXPRESSIONS: dict[str, Expression] = {
    "a number at places": _at_places(lambda m: 0.5),
    "rows at places": _at_places(lambda m: m.rows),
    "lists of scalars": _at_scalars,
    "a number": _assigned(lambda m: 0.5, 3),
    "a row for all": _assigned(lambda m: m.row, 4),
    "rows in order": _assigned(lambda m: m.rows * 2, 5),
    "elements": _elements,
    "scattered rows": lambda m, x, ids: m.fc(x).masked_scatter((ids == 5).unsqueeze(-1).expand(2, 5, 4), m.rows),
    "scattered rows, broadcast": lambda m, x, ids: m.fc(x).masked_scatter((ids == 6).unsqueeze(-1), m.rows),
    "selected rows": lambda m, x, ids: m.fc(x)[ids == 5] * m.rows[:3],
    "selected elements": lambda m, x, ids: torch.masked_select(m.fc(x), (ids == 4).unsqueeze(-1)) * m.row,
    "selected twice": lambda m, x, ids: torch.stack([m.fc(x)[ids == token].sum(0) for token in (3, 5, 6)]),
    "more rows than places": lambda m, x, ids: m.fc(x).masked_scatter((ids == 4).unsqueeze(-1), m.rows),
}


@pytest.mark.parametrize("name", some(EXPRESSIONS, 2))
def test_masks_choose_as_in_pytorch(name: str) -> None:
    torch.manual_seed(0)
    module, x = Small(EXPRESSIONS[name]), torch.randn(2, 5, 4)
    with pytest.warns(UserWarning, match=DECIDE) if name.startswith("selected") else nullcontext():
        graph = from_torch(module, (x, IDS))
    other = IDS.roll(1, 1)  # the same tokens at other places
    found = evaluate(graph, {"x": x.numpy(), "ids": other.numpy(), **graph.data})["output"]
    np.testing.assert_allclose(found, module(x, other).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_where_a_mask_chooses_another_number_nothing_is_wrong_in_silence() -> None:
    torch.manual_seed(0)
    module, x = Small(lambda m, x, ids: m.fc(x)[ids == 5]), torch.randn(2, 5, 4)
    with pytest.warns(UserWarning, match=DECIDE):
        graph = from_torch(module, (x, IDS))
    found = evaluate(graph, {"x": x.numpy(), "ids": np.full((2, 5), 5), **graph.data})["output"]
    assert np.isnan(found).all()


class Patches(nn.Module):
    """Averages the patches of images of different sizes, which only the contents of `grid` tell."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, patches: Tensor, grid: Tensor, used: Tensor) -> Tensor:
        counts = (grid[:, 0] * grid[:, 1]).tolist()
        images = [part.mean(0) for part in torch.split(self.fc(patches), counts)]
        place = torch.arange(int(used.sum()))
        return torch.stack([image for image, _ in zip(images, grid, strict=True)])[used][place]


def test_an_input_that_decides_shapes_is_fixed() -> None:
    torch.manual_seed(0)
    module, patches = Patches(), torch.randn(10, 3)
    grid, used = torch.tensor([[2, 2], [3, 2]]), torch.tensor([True, False])
    graph = from_torch(module, (patches, grid, used), fixed=["grid", "used"])
    assert [value.name for value in graph.inputs] == ["patches"]
    found = evaluate(graph, {"patches": patches.numpy(), **graph.data})["output"]
    np.testing.assert_allclose(found, module(patches, grid, used).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_what_is_fixed_has_to_be_an_argument() -> None:
    with pytest.raises(ModelError, match="no argument 'grd' to be fixed .did you mean 'grid'"):
        from_torch(Patches(), (torch.randn(4, 3), torch.tensor([[2, 2]]), torch.tensor([True])), fixed=["grd"])
