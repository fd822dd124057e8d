"""Trials of many architectures, each in a process of its own with bounds of time and memory.

The processes are forked from this one, in which PyTorch and `transformers` are imported, so that none waits for that.
Every result is written as a line of JSON when it is there; a sweep that was interrupted goes on from what the file has.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import logging
import multiprocessing
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from onnxscript._framework_apis import torch_2_5
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from pockengine.frontends import from_torch

from .architectures import Architecture
from .outcomes import Engine, Outcome, Until
from .trial import Trial, attempt

MEMORY_BYTES = 6 << 30
"""Of heap, for each trial."""
SECONDS = 240
"""For each trial."""

Record = dict[str, Any]


def read(path: Path) -> dict[str, Record]:
    """The latest result of each architecture in a file of JSON lines; none where it does not exist. A line that was cut
    off is left out."""
    found: dict[str, Record] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        found[record["model_type"]] = record
    return found


def sweep(
    chosen: Iterable[Architecture],
    file: Path | None,
    jobs: int,
    until: Until,
    engine: Engine,
    done: Callable[[Record], None],
) -> None:
    """Try all of `chosen`, `jobs` at a time; results are appended to `file` and given to `done`."""
    with _alone():
        _warm()
        waiting = list(chosen)[::-1]
        running: dict[Connection, _Running] = {}
        while waiting or running:
            while waiting and len(running) < jobs:
                started = _start(waiting.pop(), until, engine)
                running[started.pipe] = started
            wait(list(running), timeout=1.0)
            for pipe, trial in list(running.items()):
                if (record := trial.ended()) is not None:
                    del running[pipe]
                    if file is not None:
                        with file.open("a") as lines:
                            lines.write(json.dumps(record) + "\n")
                    done(record)


@dataclass
class _Running:
    """A trial in another process, and what that has said of it."""

    process: BaseProcess
    pipe: Connection
    record: Record
    started: float

    def ended(self) -> Record | None:
        """The result, once there is one: the trial's own, or that its process ended or had to be ended."""
        try:
            while self.pipe.poll():
                self.record = self.pipe.recv()
        except EOFError:
            self._end()
            if self.record["outcome"]:
                return self.record
            code = self.process.exitcode or 0
            reason = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
            return self._outcome(f"its process ended with {reason}")
        if self.record["outcome"]:
            self._end()
            return self.record
        if time.monotonic() - self.started > SECONDS:
            self._end()
            return self._outcome(f"it took more than {SECONDS} seconds")
        return None

    def _outcome(self, what: str) -> Record:
        stage = self.record["stage"]
        kind = Outcome.UNTRAINED if stage == "torch" else Outcome.FAILS
        return {**self.record, "outcome": kind.value, "reason": f"{stage}: {what}"}

    def _end(self) -> None:
        """The whole group of processes: the C compiler's, too."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid or 0, signal.SIGKILL)
        self.process.join()
        self.pipe.close()


def _start(architecture: Architecture, until: Until, engine: Engine) -> _Running:
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_child, args=(architecture, theirs, until, engine))
    process.start()
    theirs.close()
    record = Trial(architecture.model_type, architecture.class_name, stage="torch").to_mapping()
    return _Running(process, ours, record, time.monotonic())


def _child(architecture: Architecture, pipe: Connection, until: Until, engine: Engine) -> None:
    os.setpgid(0, 0)
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES if most < 0 else min(MEMORY_BYTES, most), most))
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    pipe.send(attempt(architecture, until, engine, lambda trial: pipe.send(trial.to_mapping())).to_mapping())
    pipe.close()
    sys.stdout.flush()
    os._exit(0)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """One thread, no warnings and no log, for the trials and as long as they run."""
    threads, disabled = torch.get_num_threads(), logging.root.manager.disable
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        torch.set_num_threads(threads)


def _warm() -> None:
    """Import what every trial imports, and export once, so that the processes start with all of it."""
    for name in ("llama", "bert", "clip", "wav2vec2", "mixtral", "t5"):
        importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    torch_2_5.get_torchlib_ops = functools.cache(torch_2_5.get_torchlib_ops)  # a third of the time of an export
    layers = nn.Sequential(nn.Embedding(4, 8), nn.LayerNorm(8), nn.Linear(8, 8), nn.Softmax(-1))
    from_torch(layers, torch.zeros(2, 3, dtype=torch.long))
    FakeTensorMode.cache_clear()
