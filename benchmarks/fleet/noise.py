"""Records what benchmarks of one and the same step say on this machine, one after the other: noise and nothing else."""

from __future__ import annotations

import json
import platform
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import pockengine as pock
from pockengine.ir import Builder, DType, Graph, TensorType
from pockengine.ops import Emitter

WIDTH, LAYERS, BATCH = 192, 6, 64


def record(path: Path, benchmarks: int, repeats: int, steps: int) -> None:
    """Write the medians of each repeat of each benchmark, in microseconds, to a file."""
    with tempfile.TemporaryDirectory(prefix="pock-noise-") as folder:
        recipe = pock.Recipe(loss="mse", optimizer={"name": "sgd", "lr": 1e-6}, batch=BATCH)
        artifact = pock.compile(_network(), recipe, threads=1, cache=Path(folder) / "cache")
        executable = artifact.unpack(Path(folder) / "artifact") / "bin" / "model"
        begun, series = time.monotonic(), list[list[int]]()
        for _ in range(benchmarks):
            series.append([_median(executable, steps) for _ in range(repeats)])
    written: dict[str, Any] = {
        "machine": _processor(),
        "recorded_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - begun),
        "steps": steps,
        "microseconds": series,
    }
    head = json.dumps({name: value for name, value in written.items() if name != "microseconds"})
    rows = ",\n".join(json.dumps(one) for one in series)
    path.write_text(f'{head[:-1]}, "microseconds": [\n{rows}\n]}}\n')


def _median(executable: Path, steps: int) -> int:
    command = [str(executable), "bench", "--steps", str(steps), "--threads", "1"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
    return round(1000 * float(json.loads(said)["report"]["step_ms"]["median"]))


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(": ", 1)[1] for line in lines if line.startswith("model name")), platform.machine())


def _network() -> Graph:
    """A few layers of x = x + tanh(x W): a step of about a millisecond."""
    builder = Builder("noise")
    emit, chance = Emitter(builder), np.random.default_rng(0)
    x = builder.input("x", TensorType(DType.F32, (BATCH, WIDTH)))
    for layer in range(LAYERS):
        contents = 0.05 * chance.standard_normal((WIDTH, WIDTH), dtype=np.float32)
        weight = builder.param(f"layer.{layer}.weight", TensorType(DType.F32, (WIDTH, WIDTH)), contents)
        x = emit.add(x, emit.op("tanh", emit.matmul(x, weight)))
    builder.outputs = {"output": x}
    return builder.finish()
