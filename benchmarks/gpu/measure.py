"""One row in a process of its own: our step and the peers' in turns. Its last line is a JSON object.

python -m benchmarks.gpu.measure ROW ARTIFACT [--seconds N] [--dry]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

import pockengine as pock
from benchmarks.gpu import language_peers, peers
from benchmarks.gpu.language_models import STEPS
from benchmarks.gpu.llama import MODELS, graph_of, write_random_checkpoint
from benchmarks.gpu.rows import DRY, ROWS, Row
from benchmarks.peers.torch_models import settled
from benchmarks.turns import Contender, medians_of
from benchmarks.workloads import LEARNING_RATE, MOMENTUM
from pockengine.compile import compile
from pockengine.compile.planned import Planned
from pockengine.ir import Array, Graph
from pockengine.targets import Target

ROUNDS, LOSSES = 5, 10


class Subject(Protocol):
    """What a row trains, for us and for peers.

    precisions  those of peers that count
    exact       that of the peer whose losses ours are compared with"""

    precisions: tuple[str, ...]
    exact: str

    def graph(self) -> Graph:
        """The model."""

    def recipe(self) -> pock.Recipe:
        """What is trained, and how."""

    def feed(self) -> dict[str, Array]:
        """A batch."""

    def peer(self, mode: str, precision: str, device: str) -> peers.Peer:
        """One that has run three steps."""


class OfFamily:
    """A network of `benchmarks.workloads`."""

    precisions: tuple[str, ...] = ("autocast", "bf16")
    exact: str = "f32"

    def __init__(self, row: Row) -> None:
        self.row, self._weights = row, settled(row.family).state_dict()

    def graph(self) -> Graph:
        example = torch.from_numpy(self.feed()[self.row.family.input_name])
        return pock.from_torch(settled(self.row.family), (example,))

    def recipe(self) -> pock.Recipe:
        return pock.Recipe(
            loss=self.row.family.loss,
            optimizer={"name": "sgd", "lr": LEARNING_RATE, "momentum": MOMENTUM},
            update=list(self.row.update),
            batch=self.row.batch,
        )

    def feed(self) -> dict[str, Array]:
        return self.row.family.feed(batch=self.row.batch)

    def peer(self, mode: str, precision: str, device: str) -> peers.Peer:
        return peers.build(self.row, self._weights, mode, precision, device)


class OfLanguage:
    """A language model, whose checkpoint of random weights is in `folder` or is written there."""

    exact: str = language_peers.PRECISION

    def __init__(self, row: Row, folder: Path, device: str) -> None:
        self._shape, self._step = MODELS[row.model], STEPS[row.language]
        if row.tokens:
            self._step = replace(self._step, batch=row.batch, tokens=row.tokens)
        self.precisions = language_peers.precisions_of(self.recipe())
        self._checkpoint = write_random_checkpoint(folder / f"checkpoint-{row.model}", self._shape, device)

    def graph(self) -> Graph:
        return graph_of(self._checkpoint, self._step.batch, self._step.tokens)

    def recipe(self) -> pock.Recipe:
        return self._step.recipe_for(self._shape)

    def feed(self) -> dict[str, Array]:
        size = (self._step.batch, self._step.tokens)
        tokens = np.random.default_rng(0).integers(0, self._shape.vocabulary, size)
        return {"input_ids": tokens, "labels": tokens}

    def peer(self, mode: str, precision: str, device: str) -> peers.Peer:
        return language_peers.build(self._checkpoint, self.recipe(), self.feed()["input_ids"], mode, precision, device)


def subject_of(row: Row, folder: Path, device: str) -> Subject:
    """What a row trains; its files are in a folder."""
    return OfLanguage(row, folder, device) if row.language else OfFamily(row)


def build(row: Row, target: Target, folder: Path, device: str) -> tuple[pock.Artifact, Planned]:
    """Our step, and its plan. Raises PockError where it cannot be made."""
    planned: list[Planned] = []
    subject = subject_of(row, folder, device)
    made = compile(subject.graph(), subject.recipe(), target, inspect=lambda made, _: planned.append(made))
    return made, planned[0]


def measure(row: Row, artifact: Path, seconds: float, device: str) -> dict[str, Any]:
    """Milliseconds of our step and of each peer's, bytes that they take on the GPU, and how far our first losses are
    from PyTorch's in f32, of a language model from those in bf16."""
    ends, subject = time.monotonic() + seconds, subject_of(row, artifact.parent, device)
    feed, taken = subject.feed(), _free(device)
    session = pock.Artifact.open(artifact).load()
    ours = [session.step(feed) for _ in range(LOSSES)]
    found: dict[str, Any] = {"bytes": taken - _free(device), "peers": {}, "failed": {}}
    found["loss_difference"] = _apart(ours[3:], subject, device)
    contenders, reserved = [Contender("ours", lambda: session.step(feed))], {}
    for mode, precision in product(row.peers or peers.MODES, subject.precisions):
        name = f"{mode}, {precision}"
        if time.monotonic() > ends:
            found["failed"][name] = "left out: no time was left"
            continue
        try:
            peer = subject.peer(mode, precision, device)
        except Exception as error:  # whatever a compiler of PyTorch's raises is that peer's result
            found["failed"][name] = f"{type(error).__name__}: {str(error)[:200]}"
            continue
        contenders.append(Contender(name, peer.step))
        reserved[name] = peer.reserved
    times = medians_of(contenders, 1 if device == "cpu" else ROUNDS)
    found["ms"] = times.pop("ours")
    found["peers"] = {name: {"ms": ms, "bytes": reserved[name]} for name, ms in times.items()}
    return found


def _apart(ours: Sequence[float], subject: Subject, device: str) -> float:
    """The largest relative difference of losses after the third; the peer is gone then."""
    exact = subject.peer("eager", subject.exact, device)
    theirs = [exact.step() for _ in ours]
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))


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
