"""Power cuts, full disks and full memory: what is on disk is always whole, and a resumed run goes on bit for bit."""

from __future__ import annotations

import itertools
import json
import os
import random
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from pockengine.compile import RUNTIME_BYTES
from pockengine.targets import get
from tests.compiler.runtime.conftest import TOY, Run
from tests.compiler.runtime.toy import Toy


def test_resume_is_bit_identical(run: Run, data: Path, tmp_path: Path) -> None:
    whole = run("train", "--data", data, "--steps", 30, "--seed", 7, "--save", "whole.safetensors")
    checkpoint = ("--checkpoint", "c.safetensors", "--checkpoint-every", 4)
    first = run("train", "--data", data, "--steps", 13, "--seed", 7, *checkpoint)
    rest = run("train", "--data", data, "--steps", 30, "--resume", "c.safetensors", "--save", "rest.safetensors")
    assert rest.events[0]["first_step"] == 13
    assert first.losses + rest.losses == whole.losses
    assert (tmp_path / "whole.safetensors").read_bytes() == (tmp_path / "rest.safetensors").read_bytes()
    finished = run("train", "--data", data, "--steps", 13, "--resume", "c.safetensors")
    assert (finished.code, finished.losses) == (0, [])


def test_a_checkpoint_holds_what_training_changes(run: Run, data: Path, tmp_path: Path) -> None:
    run("train", "--data", data, "--steps", 2, "--checkpoint", "c.safetensors", "--checkpoint-every", 2)
    assert set(load_file(tmp_path / "c.safetensors")) == {"fc.weight", "fc.bias", "fc.weight.velocity"}


def test_killed_at_any_moment_and_resumed(executable: Path, run: Run, data: Path, tmp_path: Path) -> None:
    steps = 400
    expected = run("train", "--data", data, "--steps", steps).losses
    checkpoint = tmp_path / "c.safetensors"
    command: list[str | Path] = [executable, "train", "--data", data, "--steps", str(steps)]
    command += ["--checkpoint", checkpoint, "--checkpoint-every", "3"]
    draw, kills, seen = random.Random(0), 0, dict[int, float]()
    for _ in range(200):
        resume: list[str | Path] = ["--resume", checkpoint] if checkpoint.exists() else []
        process = subprocess.Popen([*command, *resume], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        told = list(itertools.islice(process.stdout, draw.randint(0, 60)))  # then it dies, wherever it is
        process.send_signal(signal.SIGKILL)
        out, _ = process.communicate()
        lines = [json.loads(line) for line in [*told, *out.splitlines()] if line.rstrip().endswith("}")]
        seen |= {line["step"]: line["loss"] for line in lines if line["event"] == "step"}
        if process.returncode == 0:
            break
        kills += 1
    assert kills > 1
    assert [seen[step] for step in range(1, steps + 1)] == expected


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--seed", "1"], 2, "was made with another order of samples"),
        (["--no-shuffle"], 2, "was made with another order of samples"),
        (["--data", "other.safetensors"], 3, "was made with a dataset of 20 samples, this one has 19"),
        (["--resume", "w.safetensors"], 3, "w.safetensors lacks 'fc.weight.velocity'"),
        (["--resume", "none"], 4, "cannot read none"),
    ],
)
def test_checkpoints_that_do_not_fit(
    arguments: list[str], code: int, sentence: str, run: Run, data: Path, tmp_path: Path
) -> None:
    run(
        "train", "--data", data, "--steps", 2, "--checkpoint", "c.safetensors", "--checkpoint-every", 2,
        "--save", "w.safetensors",
    )  # fmt: skip
    save_file({name: value[:19] for name, value in TOY.dataset().items()}, tmp_path / "other.safetensors")
    done = run("train", "--data", data, "--steps", 4, "--resume", "c.safetensors", *arguments)
    assert (done.code, sentence in done.sentence, done.losses) == (code, True, []), done


def big() -> Toy:
    """Some 22 MB of parameters, optimizer state and input."""
    return Toy(batch=64, features=20000, classes=100, rate=0.0)


@pytest.fixture(scope="module")
def big_executable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    peak = sum(big().space_bytes().values()) + RUNTIME_BYTES
    return big().build(tmp_path_factory.mktemp("big"), get("host"), peak=peak)


@pytest.fixture
def big_data(tmp_path: Path) -> Path:
    path = tmp_path / "data.safetensors"
    save_file(big().dataset(64), path)
    return path


def limit_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


@pytest.mark.parametrize("option", [["--save", "w"], ["--checkpoint", "w", "--checkpoint-every", "1"]])
def test_a_file_size_limit_is_a_sentence(
    option: list[str], run: Run, big_executable: Path, big_data: Path, tmp_path: Path
) -> None:
    (tmp_path / "w").write_bytes(b"old")
    done = run(
        "train", "--data", big_data, "--steps", 1, *option, binary=big_executable, preexec_fn=limit_files
    )  # fmt: skip
    assert (done.code, done.sentence) == (4, "cannot write w: File too large"), done
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.safetensors", "w"]
    assert (tmp_path / "w").read_bytes() == b"old"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("this system does not let root mount")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.may_skip
def test_a_full_disk_is_a_sentence(run: Run, big_executable: Path, big_data: Path, small_disk: Path) -> None:
    target = small_disk / "w"
    done = run("train", "--data", big_data, "--steps", 1, "--save", target, binary=big_executable)
    assert done.code == 4
    assert done.sentence == f"cannot write {target}: No space left on device; free some space and run again"
    assert list(small_disk.iterdir()) == []


def test_devices_are_not_overwritten(run: Run, data: Path) -> None:
    done = run("train", "--data", data, "--steps", 1, "--save", "/dev/full")
    assert (done.code, done.losses) == (4, [])
    assert "not a regular file" in done.sentence


def test_full_standard_output(executable: Path, data: Path) -> None:
    with open("/dev/full", "w") as full:
        command: list[str | Path] = [executable, "train", "--data", data, "--steps", "1"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (4, "cannot write to standard output: No space left on device\n")


def test_too_little_memory(run: Run, big_executable: Path, big_data: Path) -> None:
    def limit_memory() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (16 << 20, 16 << 20))

    done = run("train", "--data", big_data, "--steps", 1, binary=big_executable, preexec_fn=limit_memory)
    assert done.code == 5
    assert done.sentence.startswith("not enough memory: 'toy' needs 2")


def test_measured_peak_is_the_predicted_one(run: Run, big_executable: Path, big_data: Path) -> None:
    done = run("train", "--data", big_data, "--steps", 2, "--threads", 2, binary=big_executable)
    predicted, measured = done.report["predicted_peak_bytes"], done.report["peak_rss_bytes"]
    assert predicted == sum(big().space_bytes().values()) + RUNTIME_BYTES
    assert abs(measured - predicted) < 0.1 * predicted


def test_evaluation_best_weights_and_checkpoints_take_no_memory(
    run: Run, big_executable: Path, big_data: Path, tmp_path: Path
) -> None:
    shutil.copy(big_data, tmp_path / "e")
    arguments = ["train", "--data", big_data, "--epochs", 2, "--threads", 2, "--eval-data", "e", "--patience", 1]
    arguments += ["--save", "w", "--save-trained", "t", "--checkpoint", "c", "--checkpoint-every", 1]
    done = run(*arguments, binary=big_executable)
    assert done.code == 0, done.sentence
    predicted, measured = done.report["predicted_peak_bytes"], done.report["peak_rss_bytes"]
    assert (done.report["best_step"], measured < 1.1 * predicted) == (1, True), (measured, predicted)
