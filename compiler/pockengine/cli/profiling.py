"""`pock profile`: the table of a step's kernels, as JSON, and as a trace."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from ..codegen.files import write_whole
from ..errors import PockError
from ..insight import Profile, ProfiledKernel, profile, trace_events
from .console import pairs, size, wide

_SHOWN = 15
"""Kernels of each phase."""


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
    console.print(_table(found))
    console.print()
    console.print(pairs(_summary(found)))
    if trace is not None:
        console.print(f"trace: {trace} (open it in ui.perfetto.dev)", markup=False)


def _table(found: Profile) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("layer", "operator"):
        table.add_column(name)
    for name in ("ms", "share", "Gflop/s", "of peak", "GB/s", "from", "of bandwidth"):
        table.add_column(name, justify="right")
    for part in found.phases():
        table.add_row(part.phase, "", f"{part.ms:.3f}", f"{part.share:.1%}", style="bold")
        for one in part.kernels[:_SHOWN]:
            table.add_row(*map(escape, _row(one)))
        if rest := part.kernels[_SHOWN:]:
            ms, share = sum(one.ms for one in rest), sum(one.share for one in rest)
            table.add_row(f"  {len(rest)} more", "", f"{ms:.3f}", f"{share:.1%}")
    return table


def _row(one: ProfiledKernel) -> tuple[str, ...]:
    flops, moved = (f"{amount / one.ms / 1e6:.1f}" if one.ms else "" for amount in (one.flops, one.bytes))
    of_peak, of_rate = ("" if part is None else f"{part:.0%}" for part in (one.of_peak, one.of_bandwidth))
    share = f"{one.share:.1%}"
    return f"  {one.layer}", one.op, f"{one.ms:.3f}", share, flops, of_peak, moved, one.level or "", of_rate


def _summary(found: Profile) -> dict[str, str]:
    """What the step takes, what this machine can do, and what the step makes of that."""
    threads = f"{found.threads} thread{'s' * (found.threads > 1)}"
    time = f"{found.step_ms:.3f} ms (median of {found.steps}), kernels {found.kernels_ms:.3f} ms, {threads}"
    rows = {f"one step of {found.program}": time}
    if (peak := found.peak) is None:
        return rows
    rates = ", ".join(f"{one.level} {one.rate / 1e9:.0f}" for one in peak.memory)
    rows["this machine at best"] = f"{peak.flops / 1e9:.0f} Gflop/s; {rates} GB/s"
    flops = sum(one.flops for one in found.kernels)
    rate = flops / found.step_ms * 1e3 if found.step_ms else 0.0
    rows["arithmetic"] = f"{rate / 1e9:.1f} Gflop/s, {rate / peak.flops:.0%} of that"
    moved = {one.level: sum(each.bytes_from.get(one.level, 0.0) for each in found.kernels) for one in peak.memory}
    if total := sum(moved.values()):
        parts = ", ".join(f"{name} {nbytes / total:.0%}" for name, nbytes in moved.items())
        least = sum(1e3 * moved[one.level] / one.rate for one in peak.memory)
        rows["data"] = f"{size(int(total))} from {parts}: {least:.3f} ms at these rates"
    return rows
