"""Optimizer state in 8 bits against the same training with f32 state."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from pockengine.artifact import Artifact
from pockengine.compile import Request, compile, plan_programs
from pockengine.errors import RecipeError
from pockengine.ir import Array, Builder, DType, Graph, TensorType, Value
from pockengine.ops import Emitter, eight_bits
from pockengine.recipe import Recipe
from pockengine.targets import get
from tests.compiler.codegen.emulated import EMULATOR
from tests.compiler.training import frozen_models
from tests.sweeps import some

BATCH, WIDTH, HIDDEN, CLASSES = 8, 64, 128, 5
MOMENTUM = {"name": "sgd", "lr": 0.05, "momentum": 0.9}
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "sgd": {**MOMENTUM, "nesterov": True, "weight_decay": 1e-3},
    "adam": {"name": "adam", "lr": 2e-3},
    "adamw": {"name": "adamw", "lr": 2e-3},
    "lion": {"name": "lion", "lr": 3e-4},
    "lamb": {"name": "lamb", "lr": 1e-2},
}
LOSS_DIFFERENCE = 0.02
"""Of two trainings whose losses fall from 1.9 to about 1: rounding moves them by a few thousandths."""


def network(batch: int = BATCH) -> Graph:
    """A 1x1 convolution over 2 x 2 pixels with 8192 weights, their mean, a layer with 16384, a small one."""
    builder = Builder("network")
    e, x = Emitter(builder), builder.input("x", TensorType(DType.F32, (batch, WIDTH, 2, 2)))
    attrs = {"stride": (1, 1), "pad": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1, "layout": "NCHW"}
    h = e.op("tanh", e.op("conv2d", x, _param(e, "conv.weight", HIDDEN, WIDTH, 1, 1), **attrs))
    h = e.reshape(e.mean(h, (2, 3)), (batch, HIDDEN))
    h = e.op("tanh", e.add(e.matmul(h, _param(e, "fc.weight", HIDDEN, HIDDEN)), _param(e, "fc.bias", HIDDEN)))
    builder.outputs = {"logits": e.matmul(h, _param(e, "last.weight", HIDDEN, CLASSES))}
    return builder.finish()


def _param(e: Emitter, name: str, *shape: int) -> Value:
    rng = np.random.default_rng(sum(name.encode()))
    data = (rng.standard_normal(shape) / np.sqrt(WIDTH)).astype(np.float32)
    return e.builder.param(name, TensorType(DType.F32, shape), data)


def data(samples: int = 5 * BATCH, seed: int = 0) -> dict[str, Array]:
    """Labels that depend on the input: classes have means of their own."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, samples)
    means = np.random.default_rng(99).standard_normal((CLASSES, WIDTH, 1, 1))
    x = 0.3 * means[labels] + rng.standard_normal((samples, WIDTH, 2, 2))
    return {"x": x.astype(np.float32), "labels": labels}


def batch(step: int) -> dict[str, Array]:
    return {name: array[step % 5 * BATCH :][:BATCH] for name, array in data().items()}


def recipe(optimizer: dict[str, Any], state: str = "int8", **settings: Any) -> Recipe:
    return Recipe(optimizer={**optimizer, "state": state}, update=settings.pop("update", "full"), **settings)


def losses(artifact: Artifact, steps: int, threads: int = 1) -> tuple[list[float], dict[str, Array]]:
    with artifact.load(threads) as session:
        found = [session.step(batch(step)) for step in range(steps)]
        return found, {**session.state(), **session.optimizer_state()}


@pytest.mark.parametrize("name", some(OPTIMIZERS, 2))
def test_training_stays_close_to_that_with_f32_state(name: str) -> None:
    exact, kept = (compile(network(), recipe(OPTIMIZERS[name], state), threads=1) for state in ("f32", "int8"))
    wanted, found = losses(exact, 60)[0], losses(kept, 60)[0]
    np.testing.assert_allclose(found, wanted, atol=LOSS_DIFFERENCE)
    assert wanted[-1] < 0.6 * wanted[0]
    assert kept.summary["state_bytes"] < 0.3 * exact.summary["state_bytes"]


@pytest.mark.parametrize(
    "settings",
    [
        {"update": [{"params": "conv.weight", "channels": 0.75}, {"params": "fc.*"}]},
        {"accumulate": 2, "ema": 0.9},
        {"lora": {"rank": 32, "params": "fc"}},
    ],
    ids=["channels", "accumulate", "lora"],
)
def test_what_else_a_recipe_asks_for_goes_with_it(settings: dict[str, Any]) -> None:
    optimizer = {**OPTIMIZERS["adamw"], "clip": {"norm": 1.0}, "schedule": {"name": "cosine", "steps": 60, "warmup": 5}}
    graph = network(BATCH // settings.get("accumulate", 1))
    exact, kept = (compile(graph, recipe(optimizer, state, **settings), threads=1) for state in ("f32", "int8"))
    (wanted, _), (found, states) = losses(exact, 40), losses(kept, 40)
    np.testing.assert_allclose(found, wanted, atol=LOSS_DIFFERENCE)
    assert any(array.dtype == np.int8 for array in states.values())


@pytest.mark.parametrize("name", some(["sgd", "adamw"], 2, 1))
def test_a_transformer_learns_as_with_f32_state(name: str) -> None:
    """Tokens to labels until they are known: both get there, within a tenth of each other on the way."""
    exact, kept = (
        compile(frozen_models.graph(), recipe({**OPTIMIZERS[name], "lr": lr}, state), threads=1)
        for state in ("f32", "int8")
        for lr in [{"sgd": 0.02, "adamw": 1e-3}[name]]
    )
    curves = []
    for artifact in (exact, kept):
        with artifact.load() as session:
            curves.append([session.step(frozen_models.batch(step % 3)) for step in range(30)])
    wanted, found = curves
    np.testing.assert_allclose(found, wanted, atol=0.1 * wanted[0])
    assert max(wanted[-1], found[-1]) < 0.2 * wanted[0]
    assert kept.summary["state_bytes"] < 0.3 * exact.summary["state_bytes"]


@pytest.mark.skipif(EMULATOR is None, reason="qemu-user is not installed (Debian: qemu-user-static)")
def test_aarch64_trains_as_the_host_does(tmp_path: Path) -> None:
    """Losses, codes and scales after three steps; a code may be the next one where rounding falls otherwise."""
    save_file(data(), tmp_path / "data.safetensors")
    reports, states = [], []
    for target in ("host", "raspberry-pi-4"):
        model = compile(network(), recipe(OPTIMIZERS["adamw"]), target, 1).unpack() / "bin/model"
        report, checkpoint = tmp_path / f"{target}.json", tmp_path / f"{target}.safetensors"
        command: list[str | Path] = [
            model,
            "train",
            "--data",
            tmp_path / "data.safetensors",
            "--steps",
            "3",
            "--no-shuffle",
        ]
        command += ["--seed", "5", "--report", report, "--checkpoint", checkpoint, "--checkpoint-every", "3"]
        subprocess.run([*([] if target == "host" else [str(EMULATOR)]), *command], check=True, timeout=300)
        reports.append(json.loads(report.read_text())["loss"])
        states.append(load_file(checkpoint))
    np.testing.assert_allclose(reports[1], reports[0], rtol=1e-5)
    for slot in ("fc.weight.m", "fc.weight.v"):
        codes, others = (each[slot].astype(np.int32) for each in states)
        assert np.abs(codes - others).max() <= 1 and np.mean(codes != others) < 0.01
        np.testing.assert_allclose(states[1][f"{slot}.scale"], states[0][f"{slot}.scale"], rtol=1e-4)


def test_names_and_types_of_states() -> None:
    small = {"fc.bias": f"f32[{HIDDEN}]", "last.weight": f"f32[{HIDDEN},{CLASSES}]"}
    planned = plan_programs(Request(network(), recipe(OPTIMIZERS["adamw"]), get("raspberry-pi-4")))
    found = {value.name: str(value.type) for value in planned.programs["train"].graph.states}
    assert found == {
        "generator": "i64[]",
        "optimizer.beta1_correction": "f32[]",
        "optimizer.beta2_correction": "f32[]",
        "conv.weight.m": "i8[64,128]",
        "conv.weight.m.scale": "f32[64,1]",
        "conv.weight.v": "u8[64,128]",
        "conv.weight.v.scale": "f32[64,1]",
        "fc.weight.m": "i8[128,128]",
        "fc.weight.m.scale": "f32[128,1]",
        "fc.weight.v": "u8[128,128]",
        "fc.weight.v.scale": "f32[128,1]",
        **{f"{name}.{slot}": type for slot in "mv" for name, type in small.items()},
    }


def test_an_update_is_one_kernel() -> None:
    """Codes are read and written, and the weight moved, in one region each; no constant is as large as a tensor."""
    planned = plan_programs(Request(network(), recipe(MOMENTUM), get("raspberry-pi-4"), 2))
    program = planned.programs["train"]
    for name in ("conv.weight", "fc.weight"):
        steps = [step for step in program.steps if any(v.name.startswith(f"{name}.momentum") for v in step.node.inputs)]
        assert [step.node.attrs["kind"] for step in steps] == ["row"]
        assert len(steps[0].node.outputs) == 3
    assert max(value.type.nbytes for value in program.graph.consts) < 2048


def decayed_share(monkeypatch: pytest.MonkeyPatch, nearest: bool) -> float:
    """What is left of small momentum after 20 steps, over the 0.9^20 that should be, where one number of each block
    stays large: after the first step only one feature has a gradient."""
    if nearest:
        monkeypatch.setattr(eight_bits, "uniform", lambda e, shape, seed, site: e.const(0.5, DType.F32))
    builder = Builder("layer")
    e, x = Emitter(builder), builder.input("x", TensorType(DType.F32, (BATCH, HIDDEN)))
    builder.outputs = {"logits": e.matmul(x, _param(e, "weight", WIDTH, HIDDEN), trans_b=True)}
    artifact = compile(builder.finish(), recipe({**MOMENTUM, "lr": 1e-4}), threads=1)
    rng = np.random.default_rng(0)
    first = np.zeros((BATCH, HIDDEN), np.float32)
    first[:, 1:] = rng.standard_normal((BATCH, HIDDEN - 1)) * 4e-3
    later = np.zeros_like(first)
    first[:, 0] = later[:, 0] = 1
    labels = rng.integers(0, WIDTH, BATCH)
    with artifact.load() as session:
        session.step({"x": first, "labels": labels})
        start = _momentum(session.optimizer_state())
        for _ in range(20):
            session.step({"x": later, "labels": labels})
        end = _momentum(session.optimizer_state())
    return float((start * end).sum() / (start * start).sum()) / 0.9**20


def _momentum(states: dict[str, Array]) -> Array:
    codes = states["weight.momentum"].astype(np.float64)
    return (codes * np.abs(codes) * states["weight.momentum.scale"])[:, 1:]


def test_small_momentum_decays_beside_a_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert decayed_share(monkeypatch, nearest=False) == pytest.approx(1, abs=0.1)
    assert decayed_share(monkeypatch, nearest=True) > 2


def test_threads_do_not_change_a_bit() -> None:
    artifact = compile(network(), recipe(OPTIMIZERS["adamw"]), threads=3)
    (wanted, one), (found, three) = losses(artifact, 6), losses(artifact, 6, threads=3)
    assert found == wanted
    for name, tensor in one.items():
        np.testing.assert_array_equal(three[name], tensor, name)


def test_resuming_is_bit_identical(tmp_path: Path) -> None:
    artifact = compile(network(), recipe(OPTIMIZERS["adamw"], accumulate=2, ema=0.9), threads=1)
    executable = artifact.unpack() / artifact.manifest.entry_points.executable
    save_file(data(), tmp_path / "data.safetensors")

    def train(*arguments: str | Path) -> list[float]:
        command = [str(executable), "train", "--data", str(tmp_path / "data.safetensors"), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        events = [json.loads(line) for line in done.stdout.splitlines()]
        return [event["loss"] for event in events if event["event"] == "step"]

    whole, resumed, checkpoint, other = (tmp_path / f"{name}.safetensors" for name in ("a", "b", "c", "d"))
    wanted = train("--steps", "9", "--save", whole, "--seed", "3")
    first = train("--steps", "4", "--checkpoint", checkpoint, "--checkpoint-every", "4", "--seed", "3")
    assert first + train("--steps", "9", "--resume", checkpoint, "--save", resumed) == wanted
    for name, tensor in load_file(whole).items():
        np.testing.assert_array_equal(load_file(resumed)[name], tensor, name)
    states = load_file(checkpoint)
    assert states["generator"] == (3 << 32) + 4
    assert states["fc.weight.v"].dtype == np.uint8
    train("--steps", "4", "--no-shuffle", "--seed", "4", "--checkpoint", other, "--checkpoint-every", "4")
    assert (load_file(other)["fc.weight.m"] != states["fc.weight.m"]).any()


@pytest.mark.parametrize(
    ("optimizer", "words"),
    [
        ({"name": "sgd", "state": "int8"}, "momentum keeps no state: set optimizer.momentum"),
        ({"name": "adafactor", "state": "int8"}, "adafactor's state is factored and small already: leave"),
        ({"name": "adamw", "state": "int4"}, "optimizer.state must be f32 or int8, not a text .'int4'.$"),
        ({"name": "adamw", "state": 8}, "optimizer.state must be a text, not a whole number"),
    ],
)
def test_what_makes_no_sense_is_refused(optimizer: dict[str, Any], words: str) -> None:
    with pytest.raises(RecipeError, match=words):
        Recipe(optimizer=optimizer)


def test_a_recipe_says_it_only_where_it_is_asked_for() -> None:
    assert "state" not in Recipe(optimizer="adamw").to_mapping()["optimizer"]
    mapping = recipe(OPTIMIZERS["lion"]).to_mapping()
    assert mapping["optimizer"]["state"] == "int8"
    assert Recipe(**mapping).optimizer == recipe(OPTIMIZERS["lion"]).optimizer
