"""One peer's process: builds its training, then runs steps when it is told to.

    python -m benchmarks.peers.worker PEER WORKLOAD THREADS

Reads one command a line on stdin, answers with one JSON object a line on stdout: `turn MILLISECONDS` runs one step that
is not counted (none where a step takes many seconds) and then steps for about so long; `memory` gives the most memory
that was resident since training was warm, and since the process began. Whatever the frameworks print goes to stderr.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from benchmarks.peers.case import Case
from benchmarks.peers.catalogue import OURS, PEERS
from benchmarks.peers.training import Training

WARM_STEPS = 4
MEMORY_STEPS = 3
LARGE_STEPS = 2
"""Of a workload whose steps take many seconds: warm-up steps, and those of a look at the memory."""


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    name, workload, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    peer, case = PEERS[name], Case.named(workload)
    module = importlib.import_module(f"benchmarks.peers.{peer.module}")
    idle = status_bytes("VmHWM")
    start = time.perf_counter()
    training: Training = module.build(case, peer.variant, threads)
    losses = [training.step() for _ in range(LARGE_STEPS if case.workload.alone else WARM_STEPS)]
    ready = {
        "idle_bytes": idle,
        "ready_seconds": time.perf_counter() - start,
        "losses": losses,
        "trained": training.trained,
        **{key: value for key, value in training.facts.items() if not callable(value)},
    }
    if name == "pytorch":
        ready["peak_flops_per_second"] = module.matrix_product_rate(threads)
    _answer(answers, ready)
    for line in sys.stdin:
        command, *arguments = line.split()
        if command == "turn":
            _answer(answers, _turn(training, float(arguments[0]), warm=not case.workload.alone))
        else:
            _answer(answers, _peak(name, training, LARGE_STEPS if case.workload.alone else MEMORY_STEPS))


def _answer(answers: TextIO, content: dict[str, Any]) -> None:
    answers.write(json.dumps(content) + "\n")
    answers.flush()


def _turn(training: Training, milliseconds: float, warm: bool) -> dict[str, Any]:
    samples: list[float] = []
    if warm:
        training.step()
    while not samples or sum(samples) < milliseconds:
        start = time.perf_counter()
        training.step()
        samples.append(1e3 * (time.perf_counter() - start))
    return {"ms": samples}


def _peak(name: str, training: Training, steps: int) -> dict[str, Any]:
    if name == OURS:
        peak = training.facts["memory"]()
        return {"peak_bytes": peak, "lifetime_peak_bytes": peak}
    lifetime = status_bytes("VmHWM")
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts again from what is resident now
    for _ in range(steps):
        training.step()
    return {"peak_bytes": status_bytes("VmHWM"), "lifetime_peak_bytes": lifetime}


def status_bytes(field: str) -> int:
    """A field of /proc/self/status, such as `VmHWM`, the peak of what was resident. `getrusage` says none of one's own:
    its peak begins with that of the process that started this one."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    main()
