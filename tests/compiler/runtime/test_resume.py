"""A run cut anywhere and resumed is the run that was never cut: losses, evaluations, early stopping, saved weights."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from pockengine.targets import get
from tests.compiler.runtime.conftest import Done, Run
from tests.compiler.runtime.toy import Toy

KEPT = ("step", "eval", "stopped")


@dataclass(frozen=True)
class Course:
    """A training and the command that runs it."""

    binary: Path
    arguments: tuple[object, ...]


def story(done: Done) -> list[dict[str, Any]]:
    """What happened in a run, without times."""
    events = [event for event in done.events if event["event"] in KEPT]
    return [{key: value for key, value in event.items() if key != "ms"} for event in events]


def course(toy: Toy, folder: Path, *arguments: object) -> Course:
    """A model that draws random numbers and has a schedule, on data whose evaluation gets worse in the end."""
    binary = toy.build(folder / "toy", get("host"))
    dataset = dict(toy.dataset(26))
    save_file(dataset, folder / "d.safetensors")
    wrong = np.random.default_rng(5).integers(0, toy.classes, 26)
    save_file({**dataset, "labels": wrong}, folder / "e.safetensors")
    return Course(binary, ("train", "--data", "d.safetensors", "--eval-data", "e.safetensors", *arguments))


@pytest.mark.parametrize(
    "toy",
    [
        Toy(batch=3, accumulate=2, noisy=True),
        Toy(batch=4, accumulate=2, noisy=True, last_batch="drop"),
        Toy(batch=6, noisy=True, last_batch="partial"),
    ],
    ids=["wrap", "drop", "partial"],
)
def test_every_step_of_two_epochs(toy: Toy, run: Run, tmp_path: Path) -> None:
    way = course(toy, tmp_path, "--epochs", 2, "--eval-every", 2, "--patience", 3, "--save", "w", "--seed", 5)
    checkpoint = ("--checkpoint", "c", "--checkpoint-every", 100)
    whole = run(*way.arguments, *checkpoint, binary=way.binary)
    assert whole.code == 0, whole.sentence
    weights, last = (tmp_path / "w").read_bytes(), (tmp_path / "c").read_bytes()
    assert len(evaluations := [event for event in story(whole) if event["event"] == "eval"]) >= 3, evaluations
    for cut in range(1, len(whole.losses) + 1):
        first = run(*way.arguments, "--steps", cut, *checkpoint, binary=way.binary)
        rest = run(*way.arguments, *checkpoint, "--resume", "c", binary=way.binary)
        assert rest.code == 0, rest.sentence
        # The cut run evaluates once more because it ends; the resumed one does so where that is due.
        due = [event for event in story(first) if event["event"] == "step" or event["step"] % 2 == 0]
        assert due + story(rest) == story(whole), cut
        assert (tmp_path / "w").read_bytes() == weights, cut
        assert (tmp_path / "c").read_bytes() == last, cut


def test_a_run_that_stopped_early_stays_stopped(run: Run, tmp_path: Path) -> None:
    way = course(Toy(noisy=True), tmp_path, "--steps", 90, "--eval-every", 1, "--patience", 4, "--save", "w")
    checkpoint = ("--checkpoint", "c", "--checkpoint-every", 1)
    whole = run(*way.arguments, *checkpoint, binary=way.binary)
    (stopped,) = [event for event in whole.events if event["event"] == "stopped"]
    assert stopped["best_step"] == stopped["step"] - 4 == len(whole.losses) - 4 < 86
    weights = (tmp_path / "w").read_bytes()
    (tmp_path / "w").unlink()
    again = run(*way.arguments, "--resume", "c", binary=way.binary)
    assert (again.losses, story(again)) == ([], [stopped])
    assert (tmp_path / "w").read_bytes() == weights


def test_best_weights_travel_in_the_checkpoint(run: Run, tmp_path: Path) -> None:
    way = course(Toy(noisy=True), tmp_path, "--eval-every", 1, "--patience", 4)
    whole = run(*way.arguments, "--steps", 90, "--save", "w", binary=way.binary)
    assert whole.code == 0, whole.sentence
    checkpoint = ("--steps", len(whole.losses) - 2, "--checkpoint", "c", "--checkpoint-every", 5)
    run(*way.arguments, *checkpoint, "--save", "x", binary=way.binary)
    rest = run(*way.arguments, "--steps", 90, "--resume", "c", "--save", "y", binary=way.binary)
    assert story(rest) == story(whole)[-len(story(rest)) :]
    assert (tmp_path / "y").read_bytes() == (tmp_path / "w").read_bytes()
    run(*way.arguments, *checkpoint, binary=way.binary)
    lost = run(*way.arguments, "--steps", 90, "--resume", "c", "--save", "z", binary=way.binary)
    assert (lost.code, lost.losses) == (3, [])
    assert lost.sentence == "c holds no best weights: the run that made it was not given --patience and --save"
    assert {path.name for path in tmp_path.iterdir()} == {"c", "d.safetensors", "e.safetensors", "toy", "w", "x", "y"}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda tensors: tensors.pop("best:fc.bias"), "c lacks 'best:fc.bias': it is damaged"),
        (lambda tensors: tensors.update({"best:fc.bias": np.zeros(4, np.float32)}), "'fc.bias' in c has shape [4]"),
        (lambda tensors: tensors.update({"best:x": np.zeros(4, np.float32)}), "c holds best weights of another model"),
    ],
    ids=["missing", "shape", "extra"],
)
def test_altered_best_weights(
    change: Callable[[dict[str, np.ndarray]], object], sentence: str, run: Run, tmp_path: Path
) -> None:
    way = course(Toy(), tmp_path, "--eval-every", 1, "--patience", 4, "--save", "w")
    run(*way.arguments, "--steps", 3, "--checkpoint", "c", "--checkpoint-every", 1, binary=way.binary)
    with safe_open(tmp_path / "c", "np") as file:
        metadata = file.metadata()
    tensors = load_file(tmp_path / "c")
    change(tensors)
    save_file(tensors, tmp_path / "c", metadata)
    done = run(*way.arguments, "--steps", 6, "--resume", "c", binary=way.binary)
    assert (done.code, done.losses, done.sentence.startswith(sentence)) == (3, [], True), done


def test_a_checkpoint_of_another_batch_is_refused(run: Run, tmp_path: Path) -> None:
    way = course(Toy(batch=8), tmp_path)
    run(*way.arguments, "--steps", 3, "--checkpoint", "c", "--checkpoint-every", 1, binary=way.binary)
    other = Toy(batch=4).build(tmp_path / "other", get("host"))
    done = run(*way.arguments, "--steps", 6, "--resume", "c", binary=other)
    assert (done.code, done.losses) == (3, [])
    assert done.sentence == "c was made by a model with another batch, accumulate or last_batch"


def test_killed_while_it_saves(run: Run, tmp_path: Path) -> None:
    """A checkpoint of two megabytes after every step: many kills fall into a save. The last try is left alone."""
    toy = Toy(batch=4, features=4000, classes=40, rate=0.001, accumulate=2, noisy=True)
    way = course(toy, tmp_path, "--steps", 300, "--eval-every", 3, "--patience", 999, "--save", "w")
    whole = story(run(*way.arguments, binary=way.binary))
    weights = (tmp_path / "w").read_bytes()
    (tmp_path / "w").unlink()
    checkpoint = tmp_path / "c"
    command = [str(way.binary), *map(str, way.arguments), "--checkpoint", "c", "--checkpoint-every", "1"]
    draw, kills, torn, seen, begun = random.Random(0), 0, 0, dict[int, Any](), list[str]()
    for _ in range(200):
        resume = ["--resume", "c"] if checkpoint.exists() else []
        process = subprocess.Popen([*command, *resume], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
        if kills < 30:  # wherever it is after some events, however long a busy machine needs for them
            assert process.stdout is not None
            begun = [process.stdout.readline() for _ in range(draw.randrange(1, 12))]
            time.sleep(draw.uniform(0.0, 0.005))
            process.send_signal(signal.SIGKILL)
        out, _ = process.communicate()
        lines = [json.loads(line) for line in "".join([*begun, out]).splitlines() if line.endswith("}")]
        begun = []
        seen |= {(event["event"], event["step"]): event for event in lines if event["event"] in KEPT}
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL
        kills += 1
        torn += (tmp_path / "c.tmp").exists() or (tmp_path / "w.best.tmp").exists()
        if checkpoint.exists():
            with safe_open(checkpoint, "np") as file:
                assert file.metadata()["format"] == "pock-checkpoint-2"
    assert kills == 30 and torn > 0, (kills, torn)
    told = [{key: value for key, value in event.items() if key != "ms"} for event in seen.values()]
    order = {kind: index for index, kind in enumerate(KEPT)}
    assert sorted(told, key=lambda event: (event["step"], order[event["event"]])) == whole
    assert (tmp_path / "w").read_bytes() == weights
    assert "best:fc.weight" in load_file(checkpoint)
    assert not (tmp_path / "w.best").exists()


def test_paused_again_and_again(run: Run, tmp_path: Path) -> None:
    """SIGTERM anywhere: the run ends at once with a checkpoint, tells each step once, and goes on bit for bit.

    A pipe of one page holds some sixty events and nothing here reads ahead: no run tells more than ninety.
    """
    toy = Toy(batch=4, features=4000, classes=40, rate=0.001, accumulate=2, noisy=True)
    way = course(toy, tmp_path, "--steps", 600, "--eval-every", 7, "--patience", 999, "--save", "w")
    whole = story(run(*way.arguments, binary=way.binary))
    weights = (tmp_path / "w").read_bytes()
    (tmp_path / "w").unlink()
    command = [str(way.binary), *map(str, way.arguments), "--checkpoint", "c", "--checkpoint-every", "1000"]
    draw, pauses, told = random.Random(3), 0, list[dict[str, Any]]()
    for _ in range(200):
        resume = ["--resume", "c"] if (tmp_path / "c").exists() else []
        process = subprocess.Popen(
            [*command, *resume],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            bufsize=0,
            pipesize=4096,
        )
        assert process.stdout is not None
        begun = [process.stdout.readline() for _ in range(draw.randrange(1, 20))]
        process.send_signal(signal.SIGTERM)
        out, sentence = process.communicate()
        events = [json.loads(line) for line in b"".join([*begun, out]).splitlines()]
        told += [{key: value for key, value in e.items() if key != "ms"} for e in events if e["event"] in KEPT]
        if process.returncode == 0:
            break
        assert process.returncode == 7, sentence
        assert sentence.decode() == f"paused after step {told[-1]['step']}; --resume c goes on\n"
        assert events[-1] == {"event": "saved", "path": "c"} and not (tmp_path / "w").exists()
        pauses += 1
    assert pauses > 5
    assert told == whole
    assert (tmp_path / "w").read_bytes() == weights


def test_without_a_checkpoint_the_signal_ends_the_run(run: Run, tmp_path: Path) -> None:
    way = course(Toy(), tmp_path)
    command = [str(way.binary), *map(str, way.arguments), "--steps", "100000000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == -signal.SIGTERM
