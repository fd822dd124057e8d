"""Learning rates by short trainings: better ones are found, what is written is what was trained, and bad input ends."""

from __future__ import annotations

import itertools
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import pockengine as pock
from pockengine.errors import DataError, PockError, RecipeError
from pockengine.recipe import Recipe
from pockengine.recipe.rate_schedule import RateSchedule
from pockengine.search import Space
from pockengine.search.contributions import Work
from pockengine.search.contributions.samples import Samples
from pockengine.search.rates import RateGroups, Rates, find_rates
from pockengine.search.rates import finding as module
from pockengine.search.rates.finding import ORDERS, climb, half_decades, shortened
from tests.compiler.search import networks

STEPS = 20


def space(lr: float = 1e-4, **optimizer) -> Space:
    recipe = Recipe("cross_entropy", {"name": "adamw", "lr": lr, **optimizer}, batch=networks.BATCH)
    return Space.of(networks.graph(), recipe)


def data(count: int = 64) -> dict[str, np.ndarray]:
    return networks.named(networks.samples(count), networks.graph())


def search(one: Space, samples: dict[str, np.ndarray] | None = None, **work) -> tuple[Rates, Recipe]:
    given = data() if samples is None else samples
    return find_rates(one, one.full, one.recipe(one.full), given, STEPS, Work(**work))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("rates")


@pytest.fixture(scope="module")
def found(folder: Path) -> tuple[Rates, Recipe]:
    return search(space(), folder=folder)


def test_rates_that_are_too_low_are_raised(found: tuple[Rates, Recipe]) -> None:
    rates, recipe = found
    assert (rates.steps, rates.orders, rates.kept_back, rates.complete, rates.notes) == (STEPS, ORDERS, 13, True, ())
    assert min(rates.lr.values()) > 1e-4
    first = rates.trials[0]
    assert (first.group, first.lr) == ("everything", 1e-4)
    assert first.loss is not None and rates.loss < first.loss < rates.before
    for name, params in {"head": ["8.weight", "8.bias"], "weights": ["0.weight"]}.items():
        assert {recipe.optimizer.rates_of(param)[0] for param in params} == {rates.lr[name]}
    assert not recipe.optimizer.adjustable
    assert Rates.from_mapping(asdict(rates)) == rates


def test_what_is_written_is_what_was_judged(found: tuple[Rates, Recipe]) -> None:
    """Trained by itself, on samples and in orders as said, the recipe has that loss on what was kept back."""
    rates, recipe = found
    artifact = pock.compile(networks.graph(), recipe)
    losses = []
    for seed in range(ORDERS):
        with artifact.load() as session:
            trained, kept = module._parts(session, Samples(data(), artifact.manifest, "data"), 0)
            batches = Samples(trained, artifact.manifest, "data").batches(seed)
            for batch in itertools.islice(batches, STEPS):
                session.step(batch)
            losses.append(session.evaluate(kept).loss)
    assert rates.loss == pytest.approx(np.mean(losses), rel=1e-3)


def test_nothing_that_is_kept_back_is_trained_on() -> None:
    artifact = pock.compile(networks.graph(), space().recipe(space().full))
    samples = data(40)
    with artifact.load() as session:
        trained, kept = module._parts(session, Samples(samples, artifact.manifest, "data"), 3)
    (x,) = (name for name in samples if name != "labels")
    rows = [{array.tobytes() for array in part[x]} for part in (trained, kept)]
    assert [len(one) for one in rows] == [32, 8] and not rows[0] & rows[1]
    assert len(set(kept["labels"].tolist())) == networks.CLASSES, "some of each class"
    assert rows[0] | rows[1] == {array.tobytes() for array in samples[x]}


def test_what_is_kept_is_not_trained_again(found: tuple[Rates, Recipe], folder: Path, monkeypatch) -> None:
    """Also where a kill cut the last line short."""
    (file,) = folder.glob("rates-*.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]) + lines[-1][:9])
    trained = []
    real = module._Trials._trained

    def watched(self, rates, seed):
        trained.append(rates)
        return real(self, rates, seed)

    monkeypatch.setattr(module._Trials, "_trained", watched)
    assert search(space(), folder=folder) == found
    assert len(trained) == 1 and file.read_bytes() == b"".join(lines)


def test_when_the_time_is_over_what_is_known_counts() -> None:
    rates, recipe = search(space(), seconds=0.0)
    assert not rates.complete and "the time was over" in rates.notes[-1]
    assert set(rates.lr.values()) == {1e-4} and recipe.optimizer.lr == 1e-4
    with pytest.raises(PockError, match="the time was over before a learning rate was found"):
        search(space(1e30), seconds=0.0)


def test_rates_that_diverge_are_lowered_or_refused() -> None:
    rates, _ = search(space(10.0, name="sgd"))
    first = rates.trials[0].loss
    assert (first is None or first > rates.loss) and max(rates.lr.values()) < 10.0
    with pytest.raises(PockError, match="diverges at the recipe's learning rate and at each that is lower"):
        search(space(1e36))


class Told:
    """Stands for trainings: the loss is told."""

    def __init__(self, diverges_above: float) -> None:
        self.groups = RateGroups.of(space(), space().full)
        self.edge = diverges_above

    def losses(self, rates: dict[str, float], group: str) -> tuple[float, float]:
        highest = max(rates.values())
        return (1.0 + highest,) * 2 if highest <= self.edge else (np.inf,) * 2


@pytest.mark.parametrize(("edge", "kept"), [(1.0, 1e-4), (2e-5, 1e-7)])
def test_where_nothing_is_learned_the_recipes_rates_stay(edge: float, kept: float) -> None:
    """If they do not diverge. Else the best would be the rate that changes least."""
    told = Told(edge)
    rates, losses = module._found(told, list(told.groups.members), 1.0)  # type: ignore[arg-type]
    assert rates == dict.fromkeys(told.groups.members, kept) and losses == (1.0 + kept,) * 2


@pytest.mark.parametrize(
    ("lr", "count", "kind", "sentence"),
    [
        (1e-4, 9, DataError, "9 samples are too few to find learning rates: 2 of them are kept back"),
        (0.0, 64, RecipeError, "the recipe's learning rate is 0"),
    ],
)
def test_what_cannot_work_is_refused(lr: float, count: int, kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind, match=sentence):
        search(space(lr), data(count))


def test_a_model_whose_loss_is_not_finite() -> None:
    samples = data()
    (x,) = (name for name in samples if name != "labels")
    samples[x] = samples[x] * np.float32(1e38)
    with pytest.raises(DataError, match="not finite before any training"):
        search(space(), samples)


def test_climbing() -> None:
    def valley(lowest: int, edge: int = 99):
        return lambda place: (np.inf,) * 2 if place > edge else (abs(place - lowest) + 1.0,) * 2

    assert [climb(0, valley(lowest), 6) for lowest in (0, 1, 4, -3, 9, -9)] == [0, 1, 4, -3, 6, -6]
    assert climb(0, valley(-4, edge=-2), 6) == -4 and climb(0, valley(2, edge=1), 6) == 1
    assert climb(0, lambda place: (np.inf, np.inf), 6) == -6
    assert climb(0, lambda place: (float(-place), float(place)), 6) == 0, "better in one order only"


def test_rates_are_half_decades_apart_with_two_digits() -> None:
    rates = [half_decades(0.00123, place) for place in (-2, -1, 0, 1)]
    assert rates == [0.00012, 0.00039, 0.00123, 0.0039]


@pytest.mark.parametrize(
    ("schedule", "short"),
    [
        (RateSchedule("cosine", steps=1000, warmup=100, end=0.1), RateSchedule("cosine", steps=20, warmup=2, end=0.1)),
        (RateSchedule("linear", steps=10, warmup=9), RateSchedule("linear", steps=20, warmup=18)),
        (RateSchedule(warmup=500, warmup_start=0.1), RateSchedule(warmup=2, warmup_start=0.1)),
        (RateSchedule("step", every=5), RateSchedule()),
    ],
)
def test_a_schedule_keeps_its_form(schedule: RateSchedule, short: RateSchedule) -> None:
    assert shortened(schedule, 20) == short
    assert shortened(schedule, 1).warmup == 0
