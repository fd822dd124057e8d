"""Trainings by a program that trains more than the scheme: the same losses as the program of the scheme alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import pockengine as pock
from pockengine.recipe import Channels, resolve
from pockengine.search import Choice, Space
from pockengine.search.contributions import Work
from pockengine.search.contributions.samples import Samples
from pockengine.search.contributions.trainer import Trainer, head_start, trains_number_by_number, vectors
from tests.compiler.search.contributions.models import task
from tests.sweeps import some

OPTIMIZERS = [
    {"name": "sgd", "lr": 0.1, "weight_decay": 0.01},
    {"name": "sgd", "lr": 0.05, "momentum": 0.9, "nesterov": True},
    {"name": "adam", "lr": 0.01, "schedule": {"name": "cosine", "steps": 8, "warmup": 2}},
    {"name": "adamw", "lr": 0.01, "weight_decay": 0.1, "clip": {"value": 0.01}},
    {"name": "lion", "lr": 0.003, "groups": [{"params": "head.*", "lr": 0.01}]},
]


def chosen(space: Space, **options: int) -> Choice:
    """The head, and these options of units by name (dots are underscores)."""
    named = {name.replace("__", "."): option for name, option in options.items()}
    head = head_start(space)
    assert set(named) <= set(space.index)
    return tuple(
        named.get(unit.name, space.full[place] if place >= head else 0) for place, unit in enumerate(space.units)
    )


SCHEMES = {
    "images": [{"grouped__weight": 1, "norm__bias": 1, "head__weight": 2}, {"stem__weight": 2, "point__weight": 1}],
    "words": [{"query__weight": 2, "up__bias": 1}, {"table__weight": 1, "down__weight": 1, "norm__weight": 1}],
}


def really_compiled(space: Space, choice: Choice, data, steps: int, seed: int) -> tuple[list[float], dict]:
    """Losses and trained tensors of the scheme compiled by itself."""
    artifact = pock.compile(space.graph, space.recipe(choice))
    with artifact.load(seed=seed) as session:
        batches = Samples(data, artifact.manifest, "samples").batches(seed)
        return [session.step(batch) for batch in itertools.islice(batches, steps)], session.state()


@pytest.mark.parametrize(
    ("name", "optimizer"),
    some([*(("images", one) for one in OPTIMIZERS), *(("words", one) for one in OPTIMIZERS[1:3])], 3),
    ids=lambda one: one if isinstance(one, str) else one["name"],
)
def test_losses_are_those_of_the_scheme_itself(name: str, optimizer: dict) -> None:
    one = task(name, 4)
    space = Space.of(one.space.graph, one.space.base.with_(optimizer=optimizer))
    with Trainer(space, one.train, one.evaluation, {}, Work()) as trainer:
        for scheme in SCHEMES[name]:
            choice = chosen(space, **scheme)
            assert trainer.program(choice) != choice
            trained = trainer.train(choice, 8, seed=3)
            losses, tensors = really_compiled(space, choice, one.train, 8, seed=3)
            np.testing.assert_allclose(trained.losses, losses, rtol=1e-4)
            for tensor, array in trainer._opened(trainer.program(choice)).session.state().items():
                np.testing.assert_allclose(array, tensors[tensor], rtol=1e-2, atol=2e-4, err_msg=tensor)


@pytest.mark.parametrize("name", ["images", "words"])
def test_exactly_what_was_chosen_has_moved(name: str) -> None:
    """Whole units, and of units trained in part the channels that the recipe names."""
    one = task(name, 4)
    rng = np.random.default_rng(1)
    sizes = {unit.name: unit.shape[unit.axis] for unit in one.space.units if unit.axis is not None}
    importance = {name: rng.random(sizes[name]) for name in list(sizes)[:2]}
    choice = tuple(min(1, place % 3) for place in range(len(one.space.units)))
    scheme = resolve(one.space.recipe(choice, importance), one.space.graph)
    with Trainer(one.space, one.train, one.evaluation, importance, Work()) as trainer:
        trainer.train(choice, 4, seed=0)
        moved = trainer._opened(trainer.program(choice)).session.state()
    for unit in one.space.units:
        update, before, after = scheme.of(unit.name), one.space.graph.data[unit.name], moved[unit.name]
        if isinstance(update, Channels):
            assert unit.name not in importance or update.indices == tuple(
                sorted(np.argsort(-importance[unit.name])[: len(update.indices)].tolist())
            )
            others = np.setdiff1d(np.arange(unit.shape[update.axis]), update.indices)
            same = np.array_equal(np.take(before, others, update.axis), np.take(after, others, update.axis))
            assert same, unit.name
            before, after = (np.take(array, update.indices, update.axis) for array in (before, after))
        if unit.name != "key.bias":  # which softmax takes no notice of
            assert np.array_equal(before, after) == (update == "frozen"), unit.name


def test_each_training_begins_anew() -> None:
    one = task("images", 4)
    choice = chosen(one.space, point__weight=1)
    with Trainer(one.space, one.train, one.evaluation, {}, Work()) as trainer:
        first = trainer.train(choice, 5, seed=1)
        trainer.train(one.space.full, 5, seed=2)
        again = trainer.train(choice, 5, seed=1)
        other = trainer.train(choice, 5, seed=2)
        untrained = trainer.train(one.space.frozen, 5, seed=1)
    assert first.losses == again.losses
    assert first.evaluation.loss == again.evaluation.loss
    assert first.losses != other.losses
    assert untrained.losses == ()
    assert len(first.evaluation.sample_loss) == 64


def test_running_statistics_and_dropout_begin_anew_too() -> None:
    one = task("images", 4)
    space = Space.of(one.space.graph, one.space.base.with_(batch_norm="train"))
    choice = chosen(space, point__weight=1)
    with Trainer(space, one.train, one.evaluation, {}, Work()) as trainer:
        first = trainer.train(choice, 5, seed=1)
        assert trainer.train(choice, 5, seed=1).evaluation.loss == first.evaluation.loss
    losses, _ = really_compiled(space, choice, one.train, 5, seed=1)
    np.testing.assert_allclose(first.losses, losses, rtol=1e-4)


def test_few_programs_stand_for_all_schemes() -> None:
    space = task("images", 4).space
    with Trainer(space, {}, {}, {}, Work()) as trainer:
        singles = [
            tuple(option if other == place else 0 for other in range(len(space.units)))
            for place, unit in enumerate(space.units)
            for option in range(len(unit.shares))
        ]
        programs = {trainer.program(choice) for choice in singles}
        assert len(programs) <= 5 < len(singles)
        for choice in singles:
            assert all(more >= index for more, index in zip(trainer.program(choice), choice, strict=True))


@pytest.mark.parametrize(
    "optimizer",
    [
        {"name": "lamb"},
        {"name": "adafactor"},
        {"name": "adam", "state": "int8"},
        {"name": "sgd", "clip": {"norm": 1.0}},
    ],
)
def test_where_numbers_depend_on_each_other_each_scheme_is_compiled(optimizer: dict) -> None:
    one = task("words", 4)
    space = Space.of(one.space.graph, one.space.base.with_(optimizer=optimizer))
    assert not trains_number_by_number(space.base)
    choice = chosen(space, up__weight=2)
    with Trainer(space, one.train, one.evaluation, {}, Work()) as trainer:
        assert trainer.program(choice) == choice
        trained = trainer.train(choice, 4, seed=1)
    losses, _ = really_compiled(space, choice, one.train, 4, seed=1)
    np.testing.assert_allclose(trained.losses, losses, rtol=1e-4)


def test_biases_and_norms_by_module() -> None:
    space = task("images", 4).space
    names = [[space.units[place].name for place in module] for module in vectors(space)]
    assert names == [["norm.weight", "norm.bias"], ["depthwise.bias"], ["grouped.bias"], ["point.bias"]]
