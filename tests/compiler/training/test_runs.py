"""Whole training runs of compiled programs: the executable against the session, resumed anywhere, what they report."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from pockengine.artifact import Artifact, Course, train
from pockengine.compile import compile
from pockengine.errors import DataError
from pockengine.ir import Array, DType, Graph, TensorType
from pockengine.recipe import Recipe
from tests.compiler.passes.networks import Net

BATCH, TIME, CLASSES, HIDDEN = 4, 5, 6, 8

EVERYTHING = Recipe(
    loss={"name": "causal_lm", "mask": "attention_mask", "target": "input_ids"},
    optimizer={
        "name": "adamw",
        "lr": 0.02,
        "clip": {"norm": 0.5},
        "schedule": {"name": "cosine", "steps": 8, "warmup": 2},
    },
    accumulate=2,
    ema=0.9,
    dropout=True,
)


def tokens(masked: bool) -> Graph:
    """input_ids [batch, time] -> logits [batch, time, classes], with dropout; attention_mask is for losses to read."""
    net = Net("tokens", seed=4)
    ids = net.builder.input("input_ids", TensorType(DType.I64, (BATCH, TIME)))
    if masked:
        net.builder.input("attention_mask", TensorType(DType.I64, (BATCH, TIME)))
    table = net.param("embed.weight", CLASSES, HIDDEN)
    hidden = net.e.op("tanh", net.e.op("gather", table, ids, axis=0))
    return net.finish(net.linear(net.e.op("dropout", hidden, p=0.25), "fc", CLASSES))


def dataset(samples: int, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, TIME + 1, (samples, 1))
    mask = (np.arange(TIME) < lengths).astype(np.int64)
    return {"input_ids": rng.integers(0, CLASSES, (samples, TIME)), "attention_mask": mask}


@dataclass(frozen=True)
class Program:
    """A compiled program and a folder to run it in."""

    artifact: Artifact
    folder: Path

    def run(self, *arguments: object) -> list[dict[str, Any]]:
        """Its events without times and reports."""
        done = self.call(*arguments)
        assert done.returncode == 0, done.stderr
        events = [json.loads(line) for line in done.stdout.splitlines()]
        return [
            {key: value for key, value in event.items() if key != "ms"}
            for event in events
            if event["event"] in ("step", "eval", "stopped")
        ]

    def call(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        executable = self.artifact.unpack() / self.artifact.manifest.entry_points.executable
        command = [str(executable), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=self.folder)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Program:
    folder = tmp_path_factory.mktemp("everything")
    save_file(dataset(18, seed=1), folder / "d")
    save_file(dataset(11, seed=2), folder / "e")
    return Program(compile(tokens(masked=True), EVERYTHING, threads=1), folder)


WATCHED = ("train", "--data", "d", "--epochs", 2, "--eval-data", "e", "--eval-every", 2, "--patience", 2, "--seed", 7)


def losses(events: list[dict[str, Any]]) -> list[float]:
    return [event["loss"] for event in events if event["event"] == "step"]


def test_the_executable_trains_as_the_session(everything: Program) -> None:
    events = everything.run(*WATCHED, "--no-shuffle", "--save", "w")
    rows = np.arange(5 * 2 * BATCH).reshape(5, 2 * BATCH) % 18
    samples, held_out = dataset(18, seed=1), dataset(11, seed=2)
    evaluations = []
    with everything.artifact.load(threads=1, seed=7) as session:
        assert session.step_samples == 2 * BATCH
        found = []
        for step, row in enumerate(rows, 1):
            found.append(session.step({name: value[row] for name, value in samples.items()}))
            if step % 2 == 0 or step == 5:
                evaluations.append(session.evaluate(held_out))
    np.testing.assert_allclose(losses(events), found, rtol=1e-8)  # as many digits as are printed
    told = [event for event in events if event["event"] == "eval"]
    assert [event["step"] for event in told] == [2, 4, 5]
    for event, evaluation in zip(told, evaluations, strict=True):
        assert event["loss"] == pytest.approx(evaluation.loss, rel=1e-7)
        assert event["accuracy"] == pytest.approx(evaluation.accuracy, rel=1e-7)
        assert event["perplexity"] == pytest.approx(np.exp(evaluation.loss), rel=1e-6)


def test_everything_resumes_at_every_step(everything: Program) -> None:
    checkpoint = ("--checkpoint", "c", "--checkpoint-every", 50)
    whole = everything.run(*WATCHED, "--save", "w")
    weights = (everything.folder / "w").read_bytes()
    for cut in range(1, 5):
        first = everything.run(*WATCHED, *checkpoint, "--steps", cut, "--save", "cut")
        rest = everything.run(*WATCHED[:-2], "--resume", "c", "--save", "w")
        due = [event for event in first if event["event"] == "step" or event["step"] % 2 == 0]
        assert due + rest == whole, cut
        assert (everything.folder / "w").read_bytes() == weights, cut


def test_early_stopping_saves_the_average_of_the_best_step(everything: Program) -> None:
    """On so few samples the evaluation soon gets worse; what it judges, and what is saved, are the averages."""
    long = ("train", "--data", "d", "--steps", 200, "--eval-data", "e", "--eval-every", 1, "--patience", 3)
    events = everything.run(*long, "--save", "w", "--save-trained", "t", "--checkpoint", "c", "--checkpoint-every", 1)
    (stopped,) = [event for event in events if event["event"] == "stopped"]
    assert stopped["step"] == stopped["best_step"] + 3 < 200
    everything.run("train", "--data", "d", "--steps", stopped["best_step"], "--save", "best")
    weights = (everything.folder / "w").read_bytes()
    assert weights == (everything.folder / "best").read_bytes()
    (everything.folder / "w").unlink()
    assert everything.run(*long, "--resume", "c", "--save", "w") == [stopped]
    assert (everything.folder / "w").read_bytes() == weights


def test_the_seed_decides_what_drops_out(everything: Program) -> None:
    runs = [losses(everything.run(*WATCHED[:-1], seed, "--no-shuffle")) for seed in (7, 7, 8)]
    assert runs[0] == runs[1] != runs[2]


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Program:
    folder = tmp_path_factory.mktemp("labelled")
    recipe = Recipe(loss="cross_entropy", optimizer={"name": "adam", "lr": 0.05}, last_batch="partial")
    return Program(compile(tokens(masked=False), recipe, threads=1), folder)


def answers(samples: int) -> dict[str, Array]:
    """Labels of which many do not count, all of one sample among them."""
    rng = np.random.default_rng(3)
    labels = rng.integers(0, CLASSES, (samples, TIME))
    labels[rng.random((samples, TIME)) < 0.4] = -100
    labels[3] = -100
    return {"input_ids": dataset(samples, seed=3)["input_ids"], "labels": labels}


def test_a_dataset_is_judged_by_what_counts(labelled: Program) -> None:
    samples = answers(10)
    save_file(samples, labelled.folder / "d")
    (event,) = labelled.run("eval", "--data", "d")
    with labelled.artifact.load(threads=1) as session:
        logits = torch.from_numpy(session.predict({"input_ids": samples["input_ids"]})["logits"]).flatten(0, 1)
        evaluation = session.evaluate(samples)
    labels = torch.from_numpy(samples["labels"]).flatten()
    loss = torch.nn.functional.cross_entropy(logits, labels).item()
    counted = labels != -100
    accuracy = (logits.argmax(-1) == labels)[counted].float().mean().item()
    assert event["loss"] == pytest.approx(loss, rel=1e-5) == pytest.approx(evaluation.loss, rel=1e-5)
    assert event["accuracy"] == pytest.approx(accuracy) == pytest.approx(evaluation.accuracy)
    assert event["perplexity"] == pytest.approx(np.exp(loss), rel=1e-5)


def test_partial_batches_of_the_session(labelled: Program) -> None:
    samples = answers(10)
    weighted = {**samples, "sample_weight": np.linspace(0.1, 2, 10, dtype=np.float32)}
    for given in (samples, weighted):
        save_file(given, labelled.folder / "d")
        found = []
        with labelled.artifact.load(threads=1) as session:
            for start in (0, 4, 8, 0, 4, 8):
                found.append(session.step({name: value[start : start + 4][:10] for name, value in given.items()}))
        events = labelled.run("train", "--data", "d", "--epochs", 2, "--no-shuffle")
        np.testing.assert_allclose(losses(events), found, rtol=1e-8)


def test_what_does_not_count_and_what_is_wrong(labelled: Program) -> None:
    samples = answers(10)
    save_file({**samples, "labels": np.full_like(samples["labels"], -100)}, labelled.folder / "d")
    done = labelled.call("eval", "--data", "d")
    assert (done.returncode, done.stderr) == (
        3, "nothing in d counts: every sample is masked, ignored or of weight 0\n",
    )  # fmt: skip
    save_file({**samples, "labels": np.full_like(samples["labels"], -5)}, labelled.folder / "d")
    done = labelled.call("eval", "--data", "d")
    assert (done.returncode, done.stderr) == (
        3, "'labels' in d holds -5 at sample 0; it must be 0 to 5, or -100 where it does not count\n",
    )  # fmt: skip


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Rows to one of six classes, by chance: the held-out loss soon rises."""
    folder = tmp_path_factory.mktemp("classifier")
    net = Net("classifier", seed=4)
    hidden = net.e.op("tanh", net.linear(net.builder.input("x", TensorType(DType.F32, (BATCH, HIDDEN))), "one", HIDDEN))
    recipe = Recipe(loss="cross_entropy", optimizer={"name": "adam", "lr": 0.05})
    program = Program(compile(net.finish(net.linear(hidden, "two", CLASSES)), recipe, threads=1), folder)
    save_file(chance(), folder / "d")
    return program


def chance() -> dict[str, Array]:
    rng = np.random.default_rng(8)
    return {"x": rng.normal(size=(50, HIDDEN)).astype(np.float32), "labels": rng.integers(0, CLASSES, 50)}


def test_python_trains_and_stops_as_the_executable(classifier: Program) -> None:
    asked = ("--epochs", 30, "--eval-share", 0.3, "--eval-seed", 2, "--eval-every", 3, "--patience", 2, "--seed", 5)
    events = classifier.run("train", "--data", "d", *asked, "--save", "w")
    with classifier.artifact.load(threads=1) as session:
        course = Course(epochs=30, eval_share=0.3, eval_seed=2, eval_every=3, patience=2, seed=5)
        lines: list[str] = []
        trained = train(session, chance(), course, lines.append)
        weights = session.state()
    np.testing.assert_allclose(trained.losses, losses(events), rtol=1e-8)
    told = [event for event in events if event["event"] == "eval"]
    assert [(one.step, one.epoch, one.best) for one in trained.evaluations] == [
        (one["step"], one["epoch"], one["best"]) for one in told
    ]
    assert trained.ended == "patience" and len(lines) == len(told)
    assert trained.best is not None and trained.best.step == events[-1]["best_step"] < events[-1]["step"]
    assert len(trained.held_out) == 15
    saved = load_file(classifier.folder / "w")
    assert all(weights[name].tobytes() == array.tobytes() for name, array in saved.items())


@pytest.mark.parametrize(
    "course, part",
    [
        (Course(), "needs steps or epochs"),
        (Course(steps=0, epochs=1), "steps is a whole number of at least 1"),
        (Course(steps=1, patience=1), "patience needs eval_data or eval_share"),
        (Course(steps=1, eval_share=0.5, eval_data={}), "exclude each other"),
        (Course(steps=1, eval_share=1.5), "between 0 and 1"),
        (Course(steps=1, eval_data={"x": np.zeros((1, HIDDEN), np.float32)}), "lacks 'labels'"),
    ],
)
def test_courses_that_cannot_be(classifier: Program, course: Course, part: str) -> None:
    with classifier.artifact.load(threads=1) as session, pytest.raises(DataError, match=part):
        train(session, chance(), course)


def test_statistics_of_norms_are_estimated_only_where_the_recipe_says_so(classifier: Program) -> None:
    with (
        classifier.artifact.load(threads=1) as session,
        pytest.raises(DataError, match="compiled without norm_batches"),
    ):
        session.estimate_norms({"x": chance()["x"]})
