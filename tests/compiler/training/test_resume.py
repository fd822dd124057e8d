"""A run that was stopped and resumed is the run that was not: schedule, accumulated gradients and averages included."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from pockengine.compile import compile
from pockengine.recipe import Recipe

from .networks import BATCH, MLP

RECIPE = Recipe(
    optimizer={
        "name": "lamb",
        "lr": 0.02,
        "exclude": ["*.bias"],
        "clip": {"norm": 0.5},
        "schedule": {"name": "cosine", "steps": 10, "warmup": 3},
    },
    accumulate=2,
    ema=0.9,
)


def test_resuming_is_bit_identical(tmp_path: Path) -> None:
    artifact = compile(MLP.build(BATCH), RECIPE, threads=1)
    executable = artifact.unpack() / artifact.manifest.entry_points.executable
    data = tmp_path / "data.safetensors"
    save_file(MLP.batch(0, samples=5 * BATCH + 3), data)

    def train(*arguments: str | Path) -> list[float]:
        command = [str(executable), "train", "--data", str(data), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        events = [json.loads(line) for line in done.stdout.splitlines()]
        return [event["loss"] for event in events if event["event"] == "step"]

    whole, resumed, checkpoint = (tmp_path / f"{name}.safetensors" for name in ("whole", "resumed", "checkpoint"))
    losses = train("--steps", "9", "--save", whole)
    first = train("--steps", "4", "--checkpoint", checkpoint, "--checkpoint-every", "4")
    assert first + train("--steps", "9", "--resume", checkpoint, "--save", resumed) == losses
    assert len(losses) == 9
    for name, tensor in load_file(whole).items():
        np.testing.assert_array_equal(load_file(resumed)[name], tensor, name)
    states = load_file(checkpoint)
    assert states["step"] == 4
    assert not np.array_equal(states["fc1.weight.ema"], states["fc1.weight"])
