"""`pock profile`: the table of a step's kernels, as JSON, and as a trace."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from ..codegen.files import write_whole
from ..errors import PockError
from ..insight import Profile, ProfiledKernel, profile, trace_events
from .console import wide

_SHOWN = 30


@dataclass(frozen=True)
class ProfileRequest:
    """The options of `pock profile`."""

    artifact: Path
    data: Path | None
    steps: int
    threads: int | None
    trace: Path | None


def profile_model(request: ProfileRequest, *, as_json: bool) -> None:
    """Measure, print, and write the trace. Raises PockError or OSError."""
    if request.trace is not None and not request.trace.absolute().parent.is_dir():
        raise PockError(f"the folder '{request.trace.parent}' for the trace does not exist")
    found = profile(request.artifact, request.data, request.steps, request.threads)
    if request.trace is not None:
        write_whole(request.trace, [json.dumps(trace_events(found)).encode()])
    if as_json:
        print(json.dumps(found.to_mapping()))
    else:
        _show(found, request.trace)


def _show(found: Profile, trace: Path | None) -> None:
    console = wide()
    table = Table("layer", "phase", "operator", "ms", "share", "Gflop/s", "of peak", "GB/s", "of bandwidth", box=None)
    ordered = sorted(found.kernels, key=lambda one: -one.ms)
    for one in ordered[:_SHOWN]:
        table.add_row(*_row(one))
    if rest := ordered[_SHOWN:]:
        ms, share = sum(one.ms for one in rest), sum(one.share for one in rest)
        table.add_row(f"{len(rest)} more", "", "", f"{ms:.3f}", f"{share:.1%}")
    console.print(table)
    line = f"\none step of {found.program}: {found.step_ms:.3f} ms (median of {found.steps}), "
    console.print(f"{line}kernels {found.kernels_ms:.3f} ms, {found.threads} threads", markup=False)
    if found.peak is not None:
        flops = sum(one.flops for one in found.kernels) / found.step_ms / 1e6 if found.step_ms else 0.0
        line = f"this machine: {found.peak.flops / 1e9:.1f} Gflop/s and {found.peak.bytes / 1e9:.1f} GB/s at best; "
        console.print(f"{line}the step: {flops:.1f} Gflop/s, {flops * 1e9 / found.peak.flops:.0%}", markup=False)
    if trace is not None:
        console.print(f"trace: {trace} (open it in ui.perfetto.dev)", markup=False)


def _row(one: ProfiledKernel) -> tuple[str, ...]:
    rates = [f"{amount / one.ms / 1e6:.1f}" if one.ms else "" for amount in (one.flops, one.bytes)]
    parts = ["" if part is None else f"{part:.0%}" for part in (one.of_peak, one.of_bandwidth)]
    return one.layer, one.phase, one.op, f"{one.ms:.3f}", f"{one.share:.1%}", rates[0], parts[0], rates[1], parts[1]
