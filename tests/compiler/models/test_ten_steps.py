"""Ten training steps against PyTorch: every loss, every updated tensor, every frozen tensor."""

from __future__ import annotations

import pytest

from pockengine.recipe import Recipe

from . import zoo
from .agreement import ADAMW, SGD_MOMENTUM, compared

OPTIMIZERS = {"sgd-momentum": SGD_MOMENTUM, "adamw": ADAMW}
CASES = [(name, update, how) for name, updates in zoo.UPDATES.items() for update in updates for how in OPTIMIZERS]


@pytest.mark.parametrize("name, update, optimizer", CASES, ids=["-".join(case) for case in CASES])
def test_ten_steps(name: str, update: str, optimizer: str) -> None:
    recipe = Recipe(optimizer=OPTIMIZERS[optimizer], update=zoo.UPDATES[name][update], batch=zoo.BATCH)
    found = compared(zoo.MODELS[name], zoo.graph(name), recipe)
    assert found.updated
    assert not found.problems
