"""Ten training steps against PyTorch: every loss, every updated tensor, every frozen tensor."""

from __future__ import annotations

import numpy as np
import pytest

from pockengine.compile import compile
from pockengine.recipe import ALL, SGD, AdamW, Channels, Recipe, resolve

from . import reference, zoo

STEPS = 10
OPTIMIZERS = {
    # Rates at which these random models do not diverge: two correct programs drift apart where training is chaotic.
    "sgd-momentum": SGD(lr=1e-3, momentum=0.9, weight_decay=1e-4),
    # Adam divides by the gradient's size: where that is rounding noise (a bias of attention keys, a channel that a relu
    # has silenced) a small eps would turn the noise into full steps.
    "adamw": AdamW(lr=3e-5, eps=1e-5, weight_decay=0.01),
}
CASES = [(name, update, how) for name, model in zoo.MODELS.items() for update in model.updates for how in OPTIMIZERS]


@pytest.mark.parametrize("name, update, optimizer", CASES, ids=["-".join(case) for case in CASES])
def test_ten_steps(name, update, optimizer):
    model, graph = zoo.MODELS[name], zoo.graph(name)
    recipe = Recipe(optimizer=OPTIMIZERS[optimizer], update=model.updates[update], batch=zoo.BATCH)
    scheme = resolve(recipe, graph)
    expected_losses, expected = reference.train(name, scheme, recipe.optimizer, STEPS)

    session = compile(graph, recipe, target="host", threads=2).load()
    losses = [session.step(model.feeds(step)) for step in range(STEPS)]
    found, initial = session.state(), zoo.parameters(name)

    np.testing.assert_allclose(losses, expected_losses, rtol=1e-4)
    assert found.keys() == scheme.updates.keys()
    for key, tensor in found.items():
        what = scheme.of(key)
        if what == ALL or isinstance(what, Channels):
            assert not np.array_equal(tensor, initial[key]), f"{key} was not updated"
            assert error(tensor, expected[key]) < 1e-3, key
            assert error(tensor - initial[key], expected[key] - initial[key]) < 2e-2, f"the change of {key}"
        if isinstance(what, Channels):
            frozen = np.setdiff1d(np.arange(tensor.shape[what.axis]), what.indices)
            np.testing.assert_array_equal(tensor.take(frozen, what.axis), initial[key].take(frozen, what.axis), key)
        elif what != ALL:
            np.testing.assert_array_equal(tensor, initial[key], key)


def error(found: np.ndarray, expected: np.ndarray) -> float:
    """Largest difference, relative to the tensor's largest element."""
    return float(np.abs(found - expected).max() / np.abs(expected).max())
