"""Where the time of a step goes: the artifact's own measurement of each kernel, beside what this machine can do."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..artifact import Artifact, Manifest, model_command
from ..codegen import backends
from ..codegen.tunable import Peak
from ..errors import PockError
from ..ir import PHASES
from ..targets import Target
from . import levels


@dataclass(frozen=True)
class ProfiledKernel:
    """One call of a step, in the order in which they run. `layer` is the user's name, `node` the index in the plan;
    `share` is of the time of all kernels; calls of one node share its operations and bytes by their time. `bytes_from`
    says where its data lies when it begins, by level of memory, and `level` which of them it waits for longest.
    `of_peak` and `of_bandwidth` are parts of what this machine can do: of its arithmetic, and of the bandwidth of the
    levels that its data comes from. All of these are None or empty where the artifact is for another machine."""

    layer: str
    phase: str
    op: str
    kernel: str
    node: int
    ms: float
    share: float
    flops: float
    bytes: float
    bytes_from: Mapping[str, float]
    level: str | None
    of_peak: float | None
    of_bandwidth: float | None


@dataclass(frozen=True)
class ProfiledPhase:
    """The kernels of one phase of a step, the slowest first, with the sum of their milliseconds and of their shares."""

    phase: str
    ms: float
    share: float
    kernels: tuple[ProfiledKernel, ...]


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

    def phases(self) -> list[ProfiledPhase]:
        """The phases that the step has, in their order."""
        found = []
        for phase in PHASES:
            kernels = sorted((one for one in self.kernels if one.phase == phase), key=lambda one: -one.ms)
            ms, share = sum(one.ms for one in kernels), sum(one.share for one in kernels)
            if kernels:
                found.append(ProfiledPhase(phase, ms, share, tuple(kernels)))
        return found

    def to_mapping(self) -> dict[str, Any]:
        """What `pock profile --json` prints; the slowest kernel first."""
        content = asdict(self)
        content["phases"] = [{"phase": one.phase, "ms": one.ms, "share": one.share} for one in self.phases()]
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
    target = Target.from_dict(manifest.target)
    backend = backends.get(manifest.backend)
    measurer = backend.measurer(target, int(report["threads"])) if backend.runs_here(target) else None
    peak = measurer.peak() if measurer is not None else None
    return read(manifest, report, peak)


def read(manifest: Manifest, report: Mapping[str, Any], peak: Peak | None) -> Profile:
    """A report of `bench --profile` joined with the plan."""
    name = "train" if "train" in manifest.programs else "predict"
    program, called = manifest.programs[name], _shared(report["kernels"])
    total = sum(call["ms"] for call in called)
    sources = _sources(program, peak)
    kernels = tuple(
        _kernel(call, program["nodes"][call["node"]], total, peak, sources[call["node"]] if sources else {})
        for call in called
    )
    median = report["step_ms"]["median"]
    return Profile(manifest.name, name, report["threads"], report["steps"], median, total, peak, kernels)


def _shared(called: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The calls, those of one node with its work in parts as long as they take: which of it each of them does (packing,
    multiplying, adding up what threads made) is only roughly known."""
    total: dict[int, dict[str, float]] = {}
    for call in called:
        whole = total.setdefault(call["node"], {"ms": 0.0, "flops": 0.0, "bytes": 0.0})
        for key in whole:
            whole[key] += call[key]
    return [
        {**call, **{key: whole[key] * call["ms"] / whole["ms"] for key in ("flops", "bytes") if whole["ms"]}}
        for call in called
        for whole in [total[call["node"]]]
    ]


def _sources(program: Mapping[str, Any], peak: Peak | None) -> list[dict[str, float]]:
    """For each node, which part of its data comes from which level; nothing where that is not known."""
    steps = levels.touched(program) if peak is not None else None
    if peak is None or steps is None:
        return []
    names = [one.level for one in peak.memory]
    parts = levels.sources(steps, [one.nbytes for one in peak.memory if one.nbytes is not None])
    return [{name: part for name, part in zip(names, each, strict=True) if part} for each in parts]


def _kernel(
    call: Mapping[str, Any], node: Mapping[str, Any], total: float, peak: Peak | None, parts: Mapping[str, float]
) -> ProfiledKernel:
    seconds = call["ms"] / 1e3
    known = peak is not None and seconds > 0
    bytes_from = {name: part * call["bytes"] for name, part in parts.items()}
    waits = {one.level: bytes_from[one.level] / one.rate for one in peak.memory if one.level in parts} if peak else {}
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
        bytes_from=bytes_from,
        level=max(waits, key=lambda name: waits[name], default=None),
        of_peak=call["flops"] / seconds / peak.flops if known and peak else None,
        of_bandwidth=sum(waits.values()) / seconds if known and waits else None,
    )
