"""Importance of input channels, and recipes that name channels by it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import pockengine as pock
from pockengine.compile import Request, Scope, plan_programs
from pockengine.errors import PockError
from pockengine.recipe import Channels, resolve
from pockengine.search.contributions import gradient_statistics, importance
from pockengine.search.contributions.samples import Samples
from pockengine.targets import get
from tests.compiler.search.contributions.models import task


def test_activations_as_torch_computes_them() -> None:
    one = task("images", 4)
    found = importance.by_activation(one.space, one.train)
    m, x = one.module, torch.tensor(one.train["x"])
    with torch.no_grad():
        hidden = F.relu(m.norm(m.stem(x)))
        deep = F.relu(m.depthwise(hidden))
        wide = F.relu(m.grouped(deep))
        pooled = F.relu(m.point(wide)).mean((2, 3))
    groups = (deep**2).mean((0, 2, 3)).reshape(2, 4).mean(1).repeat_interleave(6)
    expected = {
        "stem.weight": (x**2).mean((0, 2, 3)),
        "depthwise.weight": (hidden**2).mean((0, 2, 3)),
        "grouped.weight": groups,
        "point.weight": (wide**2).mean((0, 2, 3)),
        "head.weight": (pooled**2).mean(0),
    }
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array.numpy(), rtol=1e-4, err_msg=name)


def test_activations_of_a_transformer() -> None:
    one = task("words", 4)
    found = importance.by_activation(one.space, one.train)
    m, ids = one.module, torch.tensor(one.train["ids"])
    with torch.no_grad():
        x = m.table(ids)
        attention = (m.query(x) @ m.key(x).transpose(1, 2) / 8**0.5).softmax(-1) @ m.value(x)
        normed = m.norm(x + m.out(attention))
        inner = F.gelu(m.up(normed))
    for name, read in {"query": x, "value": x, "out": attention, "up": normed, "down": inner}.items():
        expected = (read**2).mean((0, 1)).numpy()
        np.testing.assert_allclose(found[f"{name}.weight"], expected, rtol=1e-3, err_msg=name)
    assert "table.weight" not in found


def test_gradients_and_magnitude() -> None:
    one = task("words", 4)
    statistics = gradient_statistics(one.space, one.train)
    sizes = {unit.name: unit.shape[unit.axis] for unit in one.space.units if unit.axis is not None}
    found = {
        "magnitude": importance.by_magnitude(one.space),
        "gradient": importance.by_gradient(one.space, statistics),
        "fisher": importance.by_fisher(one.space, statistics),
    }
    for by in found.values():
        assert by.keys() == sizes.keys()
        assert all(by[name].shape == (size,) for name, size in sizes.items())
    linear = one.module.up.weight.detach().numpy().astype(np.float64)
    np.testing.assert_allclose(found["magnitude"]["up.weight"], (linear**2).sum(0))
    assert (found["gradient"]["up.weight"] <= found["fisher"]["up.weight"]).all()


def test_by_name() -> None:
    one = task("images", 4)
    statistics = gradient_statistics(one.space, one.train)
    wanted = {
        "activation": importance.by_activation(one.space, one.train),
        "fisher": importance.by_fisher(one.space, statistics),
        "gradient": importance.by_gradient(one.space, statistics),
        "magnitude": {},
    }
    assert set(wanted) == set(importance.WAYS)
    for way, expected in wanted.items():
        found = importance.channel_importance(one.space, one.train, way)
        assert found.keys() == expected.keys()
        assert all(np.array_equal(found[name], array) for name, array in expected.items())
    with pytest.raises(PockError, match="channels are not chosen by 'size'"):
        importance.channel_importance(one.space, one.train, "size")


@pytest.mark.parametrize("name", ["images", "words"])
def test_a_compiled_step_trains_exactly_the_channels_that_the_recipe_names(name: str) -> None:
    one = task(name, 4)
    given = importance.by_fisher(one.space, gradient_statistics(one.space, one.train))
    choice = tuple(1 if unit.axis is not None else 0 for unit in one.space.units)
    recipe = one.space.recipe(choice, given)
    again = pock.Recipe.parse(str(recipe.to_mapping()))
    assert again == recipe, "a recipe that names channels comes back from its file"
    scheme = resolve(again, one.space.graph)
    artifact = pock.compile(one.space.graph, again)
    with artifact.load() as session:
        for batch in itertools.islice(Samples(one.train, artifact.manifest, "samples").batches(0), 3):
            session.step(batch)
        after = session.state()
    for unit in one.space.units:
        before, update = one.space.graph.data[unit.name], scheme.of(unit.name)
        if unit.axis is None:
            assert np.array_equal(before, after[unit.name])
            continue
        assert isinstance(update, Channels)
        count = len(update.indices)
        assert update.indices == tuple(sorted(np.argsort(-given[unit.name], kind="stable")[:count].tolist()))
        moved = (before != after[unit.name]).any(axis=tuple(a for a in range(before.ndim) if a != unit.axis))
        assert np.flatnonzero(moved).tolist() == list(update.indices), unit.name
        row = next(tensor for tensor in artifact.manifest.tensors if tensor.name == unit.name)
        assert (row.trained, row.channels) == ("channels", update.indices)


def test_weights_that_read_one_tensor_keep_one_slice_of_it() -> None:
    """By activation query, key and value have the same channels: of what they read, one selection is saved."""
    one = task("words", 4)
    given = importance.by_activation(one.space, one.train)

    def saved(*weights: str) -> int:
        choice = tuple(int(unit.name in weights) for unit in one.space.units)
        recipe = one.space.recipe(choice, given)
        planned = plan_programs(Request(one.space.graph, recipe, get("host"), 1, scope=Scope.TRAINING))
        return sum(node.op == "gather" for node in planned.programs["train"].graph.nodes)

    together = saved("query.weight", "key.weight", "value.weight")
    assert together == saved("query.weight") + 2, "a slice of each weight more, and none of what is read"
    assert saved("query.weight", "up.weight") == saved("query.weight") + 2, "another tensor, another slice"
