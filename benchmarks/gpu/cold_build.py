"""One cold build, and what it took: for a process of its own, whose peak of memory is then the build's."""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

import pockengine as pock
from benchmarks.gpu.llama import graph_of
from benchmarks.peers.worker import status_bytes
from pockengine import Recipe, Target


def built(checkpoint: Path, size: tuple[int, int], recipe: Recipe, target: Target) -> dict[str, float]:
    """Import, compile with nothing in the cache, save. size: samples and tokens.

    Seconds; those of the processor, of this process and its children; bytes."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        artifact = pock.compile(graph_of(checkpoint, *size), recipe, target, cache=Path(folder) / "cache")
        artifact.save(Path(folder) / "model.pock")
        nbytes = (Path(folder) / "model.pock").stat().st_size
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "seconds": time.monotonic() - began,
        "processor_seconds": sum(one.ru_utime + one.ru_stime for one in used),
        "peak_bytes": max(status_bytes("VmHWM"), 1024 * used[-1].ru_maxrss),
        "artifact_bytes": nbytes,
        "program_bytes": artifact.manifest.members[artifact.manifest.entry_points.executable].size,
    }
