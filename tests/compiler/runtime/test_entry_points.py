"""The executable's entry points on good input: train, eval, predict, bench, info."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from pockengine.targets import get
from tests.compiler.runtime.conftest import TOY, Run
from tests.compiler.runtime.toy import Toy


def in_order(data: dict[str, np.ndarray], steps: int) -> list[dict[str, np.ndarray]]:
    """The batches of `--no-shuffle`: an endless stream of epochs."""
    samples = len(data["labels"])
    rows = [np.arange(step * TOY.batch, (step + 1) * TOY.batch) % samples for step in range(steps)]
    return [{name: value[row] for name, value in data.items()} for row in rows]


def test_training_matches_numpy_across_epochs(run: Run, data: Path, tmp_path: Path) -> None:
    done = run("train", "--data", data, "--steps", 7, "--no-shuffle", "--save", "w.safetensors")
    losses, params = TOY.reference(in_order(TOY.dataset(), 7))
    assert done.code == 0, done.sentence
    np.testing.assert_allclose(done.losses, losses, rtol=1e-5)
    saved = load_file(tmp_path / "w.safetensors")
    assert set(saved) == set(params)
    for name, value in params.items():
        np.testing.assert_allclose(saved[name], value, rtol=1e-4, atol=1e-6)
    assert saved["scale"].tobytes() == TOY.params()["scale"].tobytes()


def test_events_and_report(run: Run, data: Path, tmp_path: Path) -> None:
    done = run("train", "--data", data, "--steps", 3, "--threads", 2, "--save", "w.safetensors", "--report", "r.json")
    assert [event["event"] for event in done.events] == ["start", "step", "step", "step", "saved", "done"]
    start = done.events[0]
    assert (start["entry"], start["target"], start["threads"], start["steps"], start["first_step"]) == (
        "train", "host", 2, 3, 0,
    )  # fmt: skip
    assert [event["step"] for event in done.events[1:4]] == [1, 2, 3]
    report = json.loads((tmp_path / "r.json").read_text())
    assert report == done.report
    assert report["loss"] == done.losses
    assert len(report["step_ms"]["samples"]) == 3
    assert report["step_ms"]["p10"] <= report["step_ms"]["median"] <= report["step_ms"]["p90"]
    assert report["peak_rss_bytes"] > 0 and report["cold_start_ms"] > 0
    spaces = TOY.space_bytes()
    assert {name: report[f"{name}_bytes"] for name in spaces} == spaces


def test_shuffled_epochs_visit_every_sample_once(run: Run, tmp_path: Path) -> None:
    """One sample a step and a learning rate of zero: each loss tells which sample was drawn."""
    still = Toy(batch=1, rate=0.0)
    binary = still.build(tmp_path / "still", get("host"))
    save_file(still.dataset(21), tmp_path / "d.safetensors")
    arguments = ("train", "--data", "d.safetensors", "--steps", 63)
    in_order = run(*arguments, "--no-shuffle", binary=binary).losses
    assert in_order[:21] == in_order[21:42] == in_order[42:]
    first, again, other = (run(*arguments, "--seed", seed, binary=binary).losses for seed in (0, 0, 1))
    assert first == again != other
    epochs = [first[:21], first[21:42], first[42:], other[:21], in_order[:21]]
    assert all(sorted(epoch) == sorted(in_order[:21]) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 5


def test_eval_counts_the_last_batch(run: Run, data: Path) -> None:
    done = run("eval", "--data", data)
    dataset, params = TOY.dataset(), TOY.params()
    logits = (dataset["input"] * params["scale"]) @ params["fc.weight"].T + params["fc.bias"]
    losses = np.log(np.exp(logits).sum(1)) - logits[np.arange(20), dataset["labels"]]
    event = next(event for event in done.events if event["event"] == "eval")
    assert event["samples"] == 20
    assert event["loss"] == pytest.approx(losses.mean(), rel=1e-5)
    assert event["accuracy"] == pytest.approx((logits.argmax(1) == dataset["labels"]).mean())
    assert done.report["loss"] == [event["loss"]]
    assert done.report["accuracy"] == event["accuracy"]


def test_predict_writes_every_sample(run: Run, tmp_path: Path) -> None:
    dataset, params = TOY.dataset(), TOY.params()
    save_file({"input": dataset["input"]}, tmp_path / "unlabelled.safetensors")
    assert run("predict", "--data", "unlabelled.safetensors", "--out", "o.safetensors").code == 0
    logits = (dataset["input"] * params["scale"]) @ params["fc.weight"].T + params["fc.bias"]
    np.testing.assert_allclose(load_file(tmp_path / "o.safetensors")["logits"], logits, rtol=1e-5, atol=1e-5)


def test_weights_load(run: Run, data: Path) -> None:
    run("train", "--data", data, "--steps", 40, "--save", "w.safetensors")
    before = run("eval", "--data", data).report
    after = run("eval", "--data", data, "--load", "w.safetensors").report
    assert after["loss"][0] < before["loss"][0]
    assert after["accuracy"] > before["accuracy"]


def test_bench_needs_no_data_and_profiles(run: Run) -> None:
    done = run("bench", "--steps", 4, "--profile")
    assert done.code == 0, done.sentence
    assert len(done.report["step_ms"]["samples"]) == 4
    assert [kernel["kernel"] for kernel in done.report["kernels"]] == ["k_forward", "k_loss", "k_update"]
    assert all(kernel["ms"] >= 0 for kernel in done.report["kernels"])


def test_info(run: Run) -> None:
    (info,) = run("info").events
    labels = {"name": "labels", "dtype": "i64", "shape": [8], "nbytes": 64, "target": True, "optional": False}
    assert info["inputs"][1] == labels
    assert [tensor["name"] for tensor in info["tensors"]] == ["fc.weight", "fc.bias", "scale", "fc.weight.velocity"]
    assert info["arena_bytes"] == TOY.space_bytes()["arena"]


def test_help(executable: Path) -> None:
    done = subprocess.run([executable, "train", "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.startswith("usage: model train")


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32", "float64"])
def test_labels_convert_where_nothing_is_lost(dtype: str, run: Run, data: Path, tmp_path: Path) -> None:
    dataset = TOY.dataset()
    save_file({"input": dataset["input"], "labels": dataset["labels"].astype(dtype)}, tmp_path / "l.safetensors")
    expected = run("train", "--data", data, "--steps", 3).losses
    assert run("train", "--data", "l.safetensors", "--steps", 3).losses == expected


def test_threads_share_the_work_deterministically(run: Run, data: Path) -> None:
    runs = [run("train", "--data", data, "--steps", 60, "--threads", threads).losses for threads in (1, 2, 2, 4, 4)]
    assert all(losses == runs[0] for losses in runs)
