"""Us: the artifact's library in this process for the time, its executable for the memory."""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pockengine as pock
from benchmarks.peers.case import Case
from benchmarks.peers.prepare import graph_of, recipe_of
from benchmarks.peers.training import Training

MEMORY_STEPS = 3


def build(case: Case, variant: str, threads: int) -> Training:
    del variant
    workload = case.workload
    memory = None if workload.memory is None else workload.memory << 20
    artifact = pock.compile(
        graph_of(case), recipe_of(case), target="host", threads=threads, compute=workload.compute, memory=memory
    )
    session = artifact.load()
    feed = case.feed()
    summary = artifact.summary
    facts = {
        "flops": sum(summary["flops"].values()),
        "compile_seconds": summary["compile_seconds"],
        "arena_bytes": summary["arena_bytes"],
        "lower_bound_bytes": summary["lower_bound_bytes"],
        "memory": lambda: executable_report(artifact, threads)["peak_rss_bytes"],
    }
    return Training(lambda: session.step(feed), _trained(case, artifact), facts)


def executable_report(
    artifact: pock.Artifact, threads: int, steps: int = MEMORY_STEPS, profile: bool = False
) -> dict[str, Any]:
    """The report of `model bench`: the artifact run as a device runs it, in a process of its own."""
    folder = artifact.unpack()
    with tempfile.TemporaryDirectory(prefix="pock-bench-") as scratch:
        report = Path(scratch) / "report.json"
        command = [
            str(folder / artifact.manifest.entry_points.executable), "bench", "--steps", str(steps),
            "--threads", str(threads), "--report", str(report),
            *(["--profile"] if profile else []),
        ]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return dict(json.loads(report.read_text()))


def _trained(case: Case, artifact: pock.Artifact) -> int:
    """Numbers in the parameters of which anything is trained, as the peers count."""
    return sum(math.prod(t.shape) for t in artifact.manifest.tensors if t.role == "param" and t.name in case.trained)
