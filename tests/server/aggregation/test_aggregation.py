"""A round's arithmetic, and what is done with devices that send nonsense."""

import hashlib
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from pock_server.aggregation import admission
from pock_server.aggregation.__main__ import aggregate
from pock_server.aggregation.arithmetic import BETA_1, BETA_2, TAU
from pock_server.aggregation.task import (
    MOMENTS,
    WEIGHTS,
    Contribution,
    Options,
    Outcome,
    Rule,
    Task,
    read_outcome,
    write_task,
)
from pock_server.weights.making import make_delta
from pock_server.weights.restoring import restore
from pock_server.weights.tensors import Tensor

Tensors = dict[str, np.ndarray]
PLAIN = Options(Rule.FEDAVG, 1.0, None, None, None, "00")
TRAINED = {"w": Tensor("F32", (3, 2)), "b": Tensor("F32", (4,))}
RNG = np.random.default_rng(7)
BASE: Tensors = {
    "w": RNG.normal(size=(3, 2)).astype(np.float32),
    "frozen": RNG.normal(size=(5,)).astype(np.float32),
    "b": RNG.normal(size=(4,)).astype(np.float32),
}


def moved(by: float, seed: int = 0) -> Tensors:
    """The base, of which each trained number went somewhere near `by`."""
    rng = np.random.default_rng(seed)
    return {name: (BASE[name] + by + 0.1 * rng.normal(size=BASE[name].shape)).astype(np.float32) for name in TRAINED}


class Round:
    """The folder of a round."""

    def __init__(self, folder: Path, options: Options = PLAIN) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        save_file(BASE, folder / "base")
        self.digest = hashlib.sha256((folder / "base").read_bytes()).hexdigest()
        self.task = Task("base", self.digest, None, None, TRAINED, (), options)

    def send(self, data: bytes | Tensors, samples: int = 10, whole: bool = False) -> None:
        """One more contribution: a file, or weights as a delta or, of an agent of before, whole."""
        name = f"device-{len(self.task.contributions)}"
        path = self.folder / name
        if isinstance(data, bytes):
            path.write_bytes(data)
        elif whole:
            save_file({**BASE, **data}, path)
        else:
            save_file(data, path.with_suffix(".new"))
            make_delta(self.folder / "base", path.with_suffix(".new"), self.digest, path)
        contribution = Contribution(name, name, samples)
        self.task = replace(self.task, contributions=(*self.task.contributions, contribution))

    def done(self) -> tuple[Outcome, Tensors]:
        write_task(self.folder, self.task)
        aggregate(self.folder)
        made = self.folder / "made"
        restore(self.folder / "base", self.digest, self.folder / WEIGHTS, made, everything=True, limit=1 << 20)
        return read_outcome(self.folder), load_file(made)

    def reasons(self) -> list[str]:
        write_task(self.folder, self.task)
        aggregate(self.folder)
        return [one.reason for one in read_outcome(self.folder).rejected]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("chunk", [1 << 18, 3])
def test_fedavg_is_the_mean_by_samples(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, whole: bool, chunk: int
) -> None:
    monkeypatch.setattr(admission, "CHUNK", chunk)
    one = Round(tmp_path / "round")
    sent = [moved(1, 1), moved(2, 2)]
    one.send(sent[0], samples=30, whole=whole)
    one.send(sent[1], samples=10)
    outcome, made = one.done()
    assert [accepted.part for accepted in outcome.accepted] == [0.75, 0.25] and not outcome.rejected
    for name in TRAINED:
        expected = 0.75 * sent[0][name].astype(float) + 0.25 * sent[1][name]
        np.testing.assert_allclose(made[name], expected, rtol=1e-6)
    assert np.array_equal(made["frozen"], BASE["frozen"])
    step = math.sqrt(sum(float(((made[name].astype(float) - BASE[name]) ** 2).sum()) for name in TRAINED))
    assert outcome.step_norm == pytest.approx(step, rel=1e-5)


def test_the_next_round_begins_where_the_last_one_ended(tmp_path: Path) -> None:
    first = Round(tmp_path / "first")
    first.send(moved(1))
    _, before = first.done()
    second = Round(tmp_path / "second", replace(PLAIN, server_learning_rate=0.5))
    (second.folder / "current").write_bytes((first.folder / WEIGHTS).read_bytes())
    second.task = replace(second.task, current="current")
    sent = moved(3)
    second.send(sent)
    _, made = second.done()
    np.testing.assert_allclose(made["w"], 0.5 * (before["w"] + sent["w"]), rtol=1e-6)


def test_fedadam_is_that_of_the_paper(tmp_path: Path) -> None:
    options = replace(PLAIN, rule=Rule.FEDADAM, server_learning_rate=0.01)
    weights = {name: BASE[name].astype(float) for name in TRAINED}
    first, second = ({name: np.full(BASE[name].shape, start) for name in TRAINED} for start in (0.0, TAU * TAU))
    last: Round | None = None
    for number in range(3):
        one = Round(tmp_path / str(number), options)
        if last is not None:
            for name, source in (("current", WEIGHTS), ("moments", MOMENTS)):
                (one.folder / name).write_bytes((last.folder / source).read_bytes())
            one.task = replace(one.task, current="current", moments="moments")
        sent = moved(number, number)
        one.send(sent)
        _, made = one.done()
        for name in TRAINED:
            gradient = sent[name] - weights[name]
            first[name] = BETA_1 * first[name] + (1 - BETA_1) * gradient
            second[name] = BETA_2 * second[name] + (1 - BETA_2) * gradient**2
            weights[name] = weights[name] + 0.01 * first[name] / (np.sqrt(second[name]) + TAU)
            np.testing.assert_allclose(made[name], weights[name], rtol=1e-5)
        last = one


def test_a_median_is_not_moved_by_one_that_lies(tmp_path: Path) -> None:
    one = Round(tmp_path / "round", replace(PLAIN, rule=Rule.MEDIAN))
    sent = [moved(1, 1), moved(1, 2), moved(1, 3), moved(1e6, 4)]
    for tensors in sent:
        one.send(tensors, samples=1_000_000)
    _, made = one.done()
    for name in TRAINED:
        np.testing.assert_allclose(made[name], np.median([tensors[name] for tensors in sent], axis=0), rtol=1e-5)


def test_nonsense_is_rejected_with_its_reason_and_changes_nothing(tmp_path: Path) -> None:
    options = replace(PLAIN, norm_bound=5.0)
    honest, attacked = Round(tmp_path / "honest", options), Round(tmp_path / "attacked", options)
    bad = moved(1)
    bad["w"][0, 0] = np.nan
    wrong_shape = {"w": np.zeros((2, 3), np.float32), "b": moved(1)["b"]}
    attacked.send(bad)
    attacked.send({name: 1000 * value for name, value in moved(1).items()})
    attacked.send(wrong_shape)
    attacked.send(b"no weights")
    attacked.send({**moved(1), "frozen": BASE["frozen"] + 1})
    attacked.send({"w": moved(1)["w"].astype(np.float64)})
    attacked.send({"w": BASE["w"] + np.float32(np.inf)}, whole=True)
    for seed in range(4):
        honest.send(moved(1, seed))
        attacked.send(moved(1, seed))
    assert honest.reasons() == []
    said = attacked.reasons()
    assert len(said) == 7
    for reason, wanted in zip(
        said,
        ("not finite", "times as long", "another shape", "header", "not one that this build trains", "type", "finite"),
        strict=True,
    ):
        assert wanted in reason, said
    (_, mine), (_, theirs) = honest.done(), attacked.done()
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine)


def test_nothing_counts(tmp_path: Path) -> None:
    one = Round(tmp_path / "round")
    one.send(b"no weights")
    assert len(one.reasons()) == 1
    assert not (one.folder / WEIGHTS).exists() and read_outcome(one.folder).accepted == ()


def test_nobody_counts_for_all_by_its_word(tmp_path: Path) -> None:
    one = Round(tmp_path / "round")
    for seed, samples in enumerate((10, 10, 10, 2**53)):
        one.send(moved(1, seed), samples=samples)
    outcome, _ = one.done()
    assert [accepted.part for accepted in outcome.accepted] == pytest.approx([1 / 13, 1 / 13, 1 / 13, 10 / 13])


def test_updates_are_clipped(tmp_path: Path) -> None:
    one = Round(tmp_path / "round", replace(PLAIN, clip_norm=0.5))
    one.send(moved(3))
    outcome, _ = one.done()
    assert outcome.accepted[0].clipped and outcome.accepted[0].norm > 3
    assert outcome.step_norm == pytest.approx(0.5)


def numbers(**options: Any) -> dict[str, Any]:
    return {"clip_norm": 1.0, "noise": 2.0, "noise_key": "ab", **options}


def test_noise_has_the_deviation_that_is_accounted_for(tmp_path: Path) -> None:
    wide = {"w": Tensor("F32", (20_000,))}
    step: list[np.ndarray] = []
    for key in ("ab", "ab", "cd"):
        one = Round(tmp_path / f"{key}{len(step)}", replace(PLAIN, **numbers(noise_key=key)))
        save_file({"w": np.zeros(20_000, np.float32)}, one.folder / "base")
        one.digest = hashlib.sha256((one.folder / "base").read_bytes()).hexdigest()
        one.task = replace(one.task, base_digest=one.digest, trained=wide)
        for samples in (1, 1000):  # with noise each counts once
            one.send({"w": np.zeros(20_000, np.float32)}, samples=samples)
        outcome, made = one.done()
        assert [accepted.part for accepted in outcome.accepted] == [0.5, 0.5]
        step.append(made["w"])
    assert np.array_equal(step[0], step[1]) and not np.array_equal(step[0], step[2])
    assert step[0].std() == pytest.approx(2.0 * 1.0 / 2, rel=0.03)
