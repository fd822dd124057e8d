"""Where the time of a step goes: the artifact's own measurement of each kernel, beside what this machine can do."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..artifact import Artifact, Manifest, model_command
from ..errors import PockError
from ..targets import Target
from ..tune import is_this_machine
from ..tune.peak import Peak, measure_peak


@dataclass(frozen=True)
class ProfiledKernel:
    """One call of a step, in the order in which they run. `layer` is the user's name, `node` the index in the plan;
    `share` is of the time of all kernels; `of_peak` and `of_bandwidth` are parts of what this machine can do, None
    where the artifact is for another one."""

    layer: str
    phase: str
    op: str
    kernel: str
    node: int
    ms: float
    share: float
    flops: float
    bytes: float
    of_peak: float | None
    of_bandwidth: float | None


@dataclass(frozen=True)
class Profile:
    """A step's profile: `program` is train, or predict where nothing is trained; milliseconds are of one step."""

    name: str
    program: str
    threads: int
    steps: int
    step_ms: float
    kernels_ms: float
    peak: Peak | None
    kernels: tuple[ProfiledKernel, ...]

    def to_mapping(self) -> dict[str, Any]:
        """What `pock profile --json` prints; the slowest kernel first."""
        content = asdict(self)
        content["kernels"] = [asdict(one) for one in sorted(self.kernels, key=lambda one: -one.ms)]
        return content


def profile(path: Path, data: Path | None = None, steps: int = 20, threads: int | None = None) -> Profile:
    """Run an artifact's benchmark with its profile. `data` is a dataset; default: made-up numbers. Raises
    ArtifactError, or PockError with the program's own sentence."""
    manifest = Artifact.open(path).manifest
    options = ["--steps", str(steps), "--profile"]
    options += ["--data", str(data)] if data else []
    options += ["--threads", str(threads)] if threads else []
    with tempfile.TemporaryDirectory(prefix="pock-profile-") as scratch:
        report_file = Path(scratch) / "report.json"
        command = [*model_command(path, "bench", options), "--report", str(report_file)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise PockError(done.stderr.strip() or f"the program ended with status {done.returncode}")
        report = json.loads(report_file.read_text("utf-8"))
    target = _target(manifest)
    peak = measure_peak(target, int(report["threads"])) if is_this_machine(target) else None
    return read(manifest, report, peak)


def read(manifest: Manifest, report: Mapping[str, Any], peak: Peak | None) -> Profile:
    """A report of `bench --profile` joined with the plan."""
    program = "train" if "train" in manifest.programs else "predict"
    nodes, called = manifest.programs[program]["nodes"], report["kernels"]
    total = sum(call["ms"] for call in called)
    kernels = tuple(_kernel(call, nodes[call["node"]], total, peak) for call in called)
    median = report["step_ms"]["median"]
    return Profile(manifest.name, program, report["threads"], report["steps"], median, total, peak, kernels)


def _kernel(call: Mapping[str, Any], node: Mapping[str, Any], total: float, peak: Peak | None) -> ProfiledKernel:
    seconds = call["ms"] / 1e3
    known = peak is not None and seconds > 0
    return ProfiledKernel(
        layer=call["name"],
        phase=node["phase"],
        op=node["op"],
        kernel=call["kernel"],
        node=call["node"],
        ms=call["ms"],
        share=call["ms"] / total if total else 0.0,
        flops=call["flops"],
        bytes=call["bytes"],
        of_peak=call["flops"] / seconds / peak.flops if known and peak else None,
        of_bandwidth=call["bytes"] / seconds / peak.bytes if known and peak else None,
    )


def _target(manifest: Manifest) -> Target:
    return Target(**{**manifest.target, "features": tuple(manifest.target["features"])})
