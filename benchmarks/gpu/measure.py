"""One row in a process of its own: our step and the peers' in turns. Its last line is a JSON object.

python -m benchmarks.gpu.measure ROW ARTIFACT [--seconds N] [--dry]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

import pockengine as pock
from benchmarks.gpu import peers
from benchmarks.gpu.rows import DRY, ROWS, Row
from benchmarks.peers.torch_models import settled
from benchmarks.turns import Contender, medians_of
from benchmarks.workloads import LEARNING_RATE, MOMENTUM
from pockengine.compile import compile
from pockengine.compile.planned import Planned
from pockengine.targets import Target

ROUNDS, LOSSES = 5, 10


def build(row: Row, target: Target) -> tuple[pock.Artifact, Planned]:
    """Our step, and its plan. Raises PockError where it cannot be made."""
    planned: list[Planned] = []
    example = torch.from_numpy(row.family.feed(batch=row.batch)[row.family.input_name])
    recipe = pock.Recipe(
        loss=row.family.loss,
        optimizer={"name": "sgd", "lr": LEARNING_RATE, "momentum": MOMENTUM},
        update=list(row.update),
        batch=row.batch,
    )
    graph = pock.from_torch(settled(row.family), (example,))
    return compile(graph, recipe, target, inspect=lambda made, _: planned.append(made)), planned[0]


def measure(row: Row, artifact: Path, seconds: float, device: str) -> dict[str, Any]:
    """Milliseconds of our step and of each peer's, bytes that they take on the GPU, and how far our first losses are
    from PyTorch's in f32."""
    ends, feed, taken = time.monotonic() + seconds, row.family.feed(batch=row.batch), _free(device)
    weights = settled(row.family).state_dict()
    session = pock.Artifact.open(artifact).load()
    ours = [session.step(feed) for _ in range(LOSSES)]
    found: dict[str, Any] = {"bytes": taken - _free(device), "peers": {}, "failed": {}}
    exact = peers.build(row, weights, "eager", "f32", device)  # has run three steps
    theirs = [exact.step() for _ in range(LOSSES - 3)]
    found["loss_difference"] = max(abs(a - b) / abs(b) for a, b in zip(ours[3:], theirs, strict=True))
    contenders, reserved = [Contender("ours", lambda: session.step(feed))], {}
    for mode in row.peers or peers.MODES:
        for precision in ("autocast", "bf16"):
            name = f"{mode}, {precision}"
            if time.monotonic() > ends:
                found["failed"][name] = "left out: no time was left"
                continue
            try:
                peer = peers.build(row, weights, mode, precision, device)
            except Exception as error:  # whatever a compiler of PyTorch's raises is that peer's result
                found["failed"][name] = f"{type(error).__name__}: {str(error)[:200]}"
                continue
            contenders.append(Contender(name, peer.step))
            reserved[name] = peer.reserved
    times = medians_of(contenders, 1 if device == "cpu" else ROUNDS)
    found["ms"] = times.pop("ours")
    found["peers"] = {name: {"ms": ms, "bytes": reserved[name]} for name, ms in times.items()}
    return found


def best(found: dict[str, Any]) -> tuple[str, float] | None:
    """The quickest peer, and its milliseconds."""
    times = {name: one["ms"] for name, one in found["peers"].items()}
    name = min(times, key=lambda name: times[name], default=None)
    return None if name is None else (name, times[name])


def _free(device: str) -> int:
    return 0 if device == "cpu" else int(torch.cuda.mem_get_info()[0])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("row")
    parser.add_argument("artifact", type=Path)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--dry", action="store_true")
    options = parser.parse_args()
    row = next(row for row in (*ROWS, *DRY) if row.name == options.row)
    print(json.dumps(measure(row, options.artifact, options.seconds, "cpu" if options.dry else "cuda")))


if __name__ == "__main__":
    main()
