"""Measured contributions: what is trained, how gains are made of it, and what a kill or too little time does."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pockengine.errors import DataError, PockError
from pockengine.recipe import Recipe
from pockengine.search import Space
from pockengine.search.contributions import Training, Work, measure
from pockengine.search.contributions.kept import Journal
from pockengine.search.contributions.measured import _key, _Plan, _Results
from pockengine.search.contributions.trainer import Trainer
from tests.compiler.search.contributions.models import task

SHORT = Training(steps=4, seeds=1, metric="loss", depths=2)


def test_gains_are_differences_of_trainings() -> None:
    one = task("images", 4)
    found = measure(one.space, one.train, one.evaluation, Training(steps=6, seeds=2, metric="loss", depths=9))
    space, head = one.space, one.space.index["head.weight"]
    base = tuple(space.full[place] if place >= head else 0 for place in range(len(space.units)))

    def loss(choice, seed):
        return trainer.train(choice, 6, seed).evaluation.loss

    with Trainer(space, one.train, one.evaluation, {}, Work()) as trainer:
        place = space.index["point.weight"]
        for option in (1, 4):
            choice = (*base[:place], option, *base[place + 1 :])
            expected = np.mean([loss(base, seed) - loss(choice, seed) for seed in (0, 1)])
            assert found.gain(place, option) == pytest.approx(expected, abs=1e-6)
        alone = tuple(2 if other == head else 0 for other in range(len(space.units)))
        expected = np.mean([loss(space.frozen, seed) - loss(alone, seed) for seed in (0, 1)])
        assert found.gain(head, 2) == pytest.approx(expected, abs=1e-6)
        vectors = [
            space.index[name] for name in ("norm.weight", "norm.bias", "depthwise.bias", "grouped.bias", "point.bias")
        ]
        together = tuple(1 if other in vectors else index for other, index in enumerate(base))
        expected = np.mean([loss(base, seed) - loss(together, seed) for seed in (0, 1)])
        assert sum(found.gain(other, 1) for other in vectors) == pytest.approx(expected, abs=1e-6)
        last = tuple(1 if other in vectors[-2:] else index for other, index in enumerate(base))
        expected = np.mean([loss(base, seed) - loss(last, seed) for seed in (0, 1)])
        assert sum(found.gain(other, 1) for other in vectors[-2:]) == pytest.approx(expected, abs=1e-6)
    assert found.gain(vectors[0], 1) == found.gain(vectors[1], 1), "one module's are not told apart"
    assert found.provenance["measured"] == found.provenance["of"]
    assert found.provenance["noise"] > 0


def test_what_matters_is_found() -> None:
    """The head matters most, and its words' table more than a bias that softmax takes no notice of."""
    one = task("words", 4)
    space = Space.of(one.space.graph, one.space.base.with_(optimizer={"name": "adam", "lr": 0.01}))
    found = measure(space, one.train, one.evaluation, Training(steps=60, seeds=1, depths=1))
    assert found.provenance["metric"] == "accuracy"
    assert found.whole.max() == found.whole[space.index["head.weight"]] > 0.3
    assert found.whole[space.index["table.weight"]] > found.whole[space.index["key.bias"]]


def test_a_kill_loses_one_training_and_more_seeds_go_on(tmp_path) -> None:
    one = task("words", 4)
    whole = measure(one.space, one.train, one.evaluation, SHORT)
    (calls, stopped) = ([], 7)

    def stop(stage: str, done: int, total: int) -> None:
        calls.append(done)
        if done == stopped:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(one.space, one.train, one.evaluation, SHORT, work=Work(folder=tmp_path, progress=stop))
    (file,) = tmp_path.iterdir()
    lines = file.read_bytes().splitlines()
    assert len(lines) == stopped
    file.write_bytes(file.read_bytes() + b'{"key": "[0, [[1')  # a kill while it was written
    again = measure(one.space, one.train, one.evaluation, SHORT, work=Work(folder=tmp_path))
    assert again.gains == whole.gains
    assert file.read_bytes().splitlines()[:stopped] == lines
    known = len(file.read_bytes().splitlines())
    more = measure(one.space, one.train, one.evaluation, Training(4, 2, "loss", 2), work=Work(folder=tmp_path))
    assert len(file.read_bytes().splitlines()) == more.provenance["of"] == 2 * known - 1, (
        "the untrained model has no seed"
    )
    measure(one.space, one.train, one.evaluation, Training(5, 1, "loss", 2), work=Work(folder=tmp_path))
    assert len(list(tmp_path.iterdir())) == 2, "other settings are another file"


def test_too_little_time_is_refused_and_kept(tmp_path) -> None:
    one = task("images", 4)
    with pytest.raises(PockError, match=r"time was over after 0 of the \d+ trainings .* same folder"):
        measure(one.space, one.train, one.evaluation, SHORT, work=Work(seconds=0.0, folder=tmp_path))


def test_what_was_not_measured_lies_between_its_neighbours(tmp_path) -> None:
    space = task("images", 4).space
    plan, journal = _Plan(space, SHORT), Journal(None)
    for choice in plan.first():
        journal.add(_key(choice, 0), {"loss": 2.0, "accuracy": 0.5})
    journal.add(_key(space.frozen, 0), {"loss": 3.0, "accuracy": 0.2})
    place = space.index["point.weight"]
    journal.add(_key(plan.single(place, 4), 0), {"loss": 1.0, "accuracy": 0.7})
    journal.add(_key(plan.single(place, 2), 0), {"loss": 1.8, "accuracy": 0.6})
    gains = _Results(plan, journal).gains()
    shares = space.units[place].shares
    assert shares[1:4] == (2 / 16 if 2 / 16 in shares else 1 / 8, 0.25, 0.5)
    np.testing.assert_allclose(gains[place], [0.0, 0.1, 0.2, 0.2 + 0.8 / 3, 1.0])
    assert gains[space.index["stem.weight"]] == (0.0,) * 4
    assert gains[space.index["head.weight"]][-1] == 1.0


def test_a_loss_without_accuracy_and_one_that_diverges() -> None:
    one = task("images", 4)
    wild = Space.of(one.space.graph, one.space.base.with_(optimizer={"name": "sgd", "lr": 1e30}))
    with pytest.raises(DataError, match="diverged.*lower the learning rate"):
        measure(wild, one.train, one.evaluation, SHORT)
    regression = Space.of(one.space.graph, Recipe({"name": "mse"}, {"name": "sgd", "lr": 0.01}))
    rng = np.random.default_rng(0)
    data = {"x": one.train["x"], "labels": rng.standard_normal((48, 4)).astype(np.float32)}
    with pytest.raises(DataError, match="no accuracy: measure gains in its loss"):
        measure(regression, data, data, Training(steps=2, seeds=1))
    assert measure(regression, data, data, SHORT).gains


def test_a_journal_that_is_none_is_refused(tmp_path) -> None:
    good = json.dumps({"key": "[0, []]", "loss": 1.0, "accuracy": None}).encode() + b"\n"
    for bad in (b"{}\n", b"[1]\n", b"nothing\n", b'{"key": 3}\n', b'{"key": "a", "loss": "1"}\n', b"[" * 9999 + b"\n"):
        (tmp_path / "j").write_bytes(good + bad)
        with pytest.raises(DataError, match="line 2 of .* is no result: delete the file"):
            Journal(tmp_path / "j")
    (tmp_path / "j").write_bytes(good)
    assert Journal(tmp_path / "j").get("[0, []]") == {"loss": 1.0, "accuracy": None}


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"metric": "speed"}, "accuracy or loss"), ({"steps": 0}, "steps must be"), ({"seeds": 0}, "seeds must be")],
)
def test_settings_without_sense(settings: dict, message: str) -> None:
    with pytest.raises(PockError, match=message):
        Training(**settings)
