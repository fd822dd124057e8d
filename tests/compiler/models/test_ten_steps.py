"""Ten training steps against PyTorch: every loss, every updated tensor, every frozen tensor."""

from __future__ import annotations

import pytest

from pockengine.recipe import SGD, AdamW, Recipe
from tests.sweeps import some

from . import zoo
from .agreement import compared

OPTIMIZERS = {
    # Slower than the families': the larger the model, the more of its units stand at a kink where rounding decides.
    "sgd-momentum": SGD(lr=1e-3, momentum=0.9, weight_decay=1e-4),
    "adamw": AdamW(lr=3e-5, eps=1e-5, weight_decay=0.01),
}
CASES = [(name, update, how) for name, updates in zoo.UPDATES.items() for update in updates for how in OPTIMIZERS]


@pytest.mark.parametrize("name, update, optimizer", some(CASES, 7), ids="-".join)
def test_ten_steps(name: str, update: str, optimizer: str) -> None:
    recipe = Recipe(optimizer=OPTIMIZERS[optimizer], update=zoo.UPDATES[name][update], batch=zoo.BATCH)
    found = compared(zoo.MODELS[name], zoo.graph(name), recipe)
    assert found.updated
    assert not found.problems
