"""The ratio of gradient to weight over the first steps, against PyTorch's training."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest
import torch

from pockengine.search import Space
from pockengine.search.contributions import Work, gradient_ratio, kept
from pockengine.search.contributions.importance import by_magnitude
from tests.compiler.search.contributions.models import task

OPTIMIZER = {"name": "adam", "lr": 0.02}


def by_torch(name: str, space: Space, steps: int, seed: int) -> dict[str, float]:
    """The gains of each unit."""
    one = dataclasses.replace(task(name, 4), module=copy.deepcopy(task(name, 4).module))
    parameters = dict(one.module.named_parameters())
    optimizer = torch.optim.Adam(parameters.values(), lr=0.02)
    order = np.random.default_rng(seed).permutation(48).reshape(-1, 4)
    gradients = dict.fromkeys(parameters, 0.0)
    weights = dict.fromkeys(parameters, 0.0)
    for step in range(steps):
        optimizer.zero_grad()
        one.loss(order[step]).backward()
        for unit, value in parameters.items():
            assert value.grad is not None
            gradients[unit] += float((value.grad.double() ** 2).sum()) / steps
            weights[unit] += float((value.detach().double() ** 2).sum()) / steps
        optimizer.step()
    found = {}
    for one_unit in space.units:
        scale = max(weights[one_unit.name], 1e-4 * float(np.prod(one_unit.shape)))
        found[one_unit.name] = float(np.sqrt(gradients[one_unit.name] / scale))
    return found


@pytest.mark.parametrize("name", ["images", "words"])
def test_against_training_by_torch(name: str) -> None:
    one = task(name, 4)
    space = Space.of(one.space.graph, one.space.base.with_(optimizer=OPTIMIZER))
    found = gradient_ratio(space, one.train, steps=6, work=Work(seed=2))
    expected = by_torch(name, space, 6, 2)
    for unit, gain in zip(space.units, found.whole, strict=True):
        assert gain == pytest.approx(expected[unit.name], rel=5e-3, abs=1e-6), unit.name
    assert found.provenance == {"steps": 6, "batch": 4, "channels": "magnitude", "seed": 2}
    for row in found.gains:
        assert list(row) == sorted(row), "more channels have no smaller gradient"


def test_a_kill_and_too_little_time(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(kept, "_EVERY", 0.0)
    one = task("images", 4)
    space = Space.of(one.space.graph, one.space.base.with_(optimizer=OPTIMIZER))
    whole = gradient_ratio(space, one.train, steps=5)

    def stop(stage: str, done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gradient_ratio(space, one.train, steps=5, work=Work(folder=tmp_path, progress=stop))
    seen: list[int] = []
    work = Work(folder=tmp_path, progress=lambda *said: seen.append(said[1]))
    assert gradient_ratio(space, one.train, steps=5, work=work).gains == whole.gains
    assert seen == [3, 4, 5]
    place = next(at for at, unit in enumerate(space.units) if unit.axis is not None)
    least = {space.units[place].name: -by_magnitude(space)[space.units[place].name]}
    other = gradient_ratio(space, one.train, steps=5, importance=least, work=work)
    assert other.provenance["channels"] == "given" and other.importance == least
    assert other.gains[place][-1] == whole.gains[place][-1] and other.gains[place][1] != whole.gains[place][1]
    assert gradient_ratio(space, one.train, steps=5, work=Work(seconds=0.0)).provenance["steps"] == 1
