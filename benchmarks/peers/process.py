"""The driver's end of a peer's process."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.peers.catalogue import PEERS
from benchmarks.peers.environments import CACHE, ROOT, python_of
from benchmarks.workloads import Workload

_EXCEPTION = re.compile(r"[\w.]*(Error|Exception|Exit)\b.*:")
_PR_SET_PDEATHSIG = 1
_THREAD_COUNTS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "NPROC",
)


class PeerError(Exception):
    """A peer that cannot run a workload; the text says why."""


class PeerProcess:
    """A peer with its training built and warm. It is stopped (SIGSTOP) but for its turns, so that no thread of it spins
    while another is measured."""

    def __init__(self, name: str, workload: Workload, threads: int) -> None:
        self.name = name
        self.log = CACHE / "logs" / f"{workload.name}-{name}.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        command = [
            str(python_of(PEERS[name].environment)),
            "-m",
            "benchmarks.peers.worker",
            name,
            workload.name,
            str(threads),
        ]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=_environment(threads), text=True, bufsize=1, start_new_session=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                preexec_fn=partial(_confine, threads),
            )  # fmt: skip
        self.ready = self._answer()
        self._signal(signal.SIGSTOP)

    def turn(self, milliseconds: float) -> list[float]:
        """Milliseconds of each counted step of a turn of about so long."""
        return [float(ms) for ms in self._ask(f"turn {milliseconds}")["ms"]]

    def memory(self) -> dict[str, int]:
        return self._ask("memory")

    def close(self) -> None:
        self._signal(signal.SIGKILL)
        self._process.communicate()

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, command: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._signal(signal.SIGCONT)
        self._process.stdin.write(command + "\n")
        answer = self._answer()
        self._signal(signal.SIGSTOP)
        return answer

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise PeerError(_reason(self.log))
        return dict(json.loads(line))

    def _signal(self, number: int) -> None:
        """To the process and what it started, such as compilers."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, number)


def _confine(threads: int) -> None:
    """In the new process: as many cores as threads, and its end when the driver ends."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _environment(threads: int) -> dict[str, str]:
    """Equal threads for everyone. XLA takes as many as the process may run on, which PeerProcess limits."""
    pinned = dict.fromkeys(_THREAD_COUNTS, str(threads))
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "2", "HF_HUB_OFFLINE": "1", "JAX_PLATFORMS": "cpu", "KERAS_BACKEND": "tensorflow"}
    return {**os.environ, **pinned, **quiet}


def _reason(log: Path) -> str:
    """The last exception in a peer's log, else its last line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if _EXCEPTION.match(line)]
    return (errors or lines or ["it ended without a word"])[-1]
