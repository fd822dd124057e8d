"""What `pock` shows a person: tables on stdout."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ..codegen.backends import of as backend_of
from ..targets import all as all_targets

_WIDE = 160


def wide() -> Console:
    """For tables of many columns: as wide as the terminal, or wide where a file or a pipe takes them."""
    console = Console(highlight=False, soft_wrap=True)
    return console if console.is_terminal else Console(highlight=False, soft_wrap=True, width=_WIDE)


def size(nbytes: int) -> str:
    """Bytes for a person: `12.3 MB`."""
    number = float(nbytes)
    for unit in ("B", "KB", "MB"):
        if number < 1000:
            return f"{number:.0f} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def count(number: int) -> str:
    """A count for a person: `1.2 M`."""
    value = float(number)
    for unit in ("", " k", " M", " G"):
        if value < 1000:
            return f"{value:.0f}" if not unit else f"{value:.1f}{unit}"
        value /= 1000
    return f"{value:.1f} T"


def pairs(rows: Mapping[str, str]) -> Table:
    """A table of labels and what they say."""
    table = Table.grid(padding=(0, 2))
    for label, text in rows.items():
        table.add_row(label, text)
    return table


def show_summary(output: Path, target: str, summary: Mapping[str, Any]) -> None:
    """The result of `pock compile`."""
    built = f"{summary['kernels']} ({summary['cache_hits']} from the cache), {summary['compile_seconds']:.1f} s"
    computes = "" if summary["compute"] == "f32" else f", contractions multiply in {summary['compute']}"
    rows = {"artifact": str(output), "target": target + computes, **figures(summary), "kernels": built}
    rows["schedules"] = _tuned(summary)
    Console().print(pairs(rows))


def _tuned(summary: Mapping[str, Any]) -> str:
    """Who chose how contractions are computed."""
    if summary["tuned"] == "off":
        return "as the model ranks them (nothing was measured: see --tune)"
    counted = summary["tuning"]
    known = f"{counted['hits']} from the cache, {counted['measured'] + counted['verified']} measured now"
    text = f"{known}, {counted['by_model']} as the model ranks them ({counted['seconds']:.1f} s)"
    return f"{text}; {counted['why_not']}" if counted["why_not"] else text


def figures(summary: Mapping[str, Any]) -> dict[str, str]:
    """What a plan says about a training step, for a person."""
    dense = summary["nodes_backward_dense"]
    clip = summary["clip_norm_bytes"]
    of_clip = f"; gradients that wait for their norm: {size(clip)}" if clip else ""
    there = summary.get("host_bytes")
    offloaded = f", and {size(there)} in the host's memory" if there else ""
    narrow = f", {count(summary['trained_in_16_bits'])} in 16 bits" if "trained_in_16_bits" in summary else ""
    rows = {
        "trained": f"{count(summary['trained_parameters'])} of {count(summary['parameters'])} numbers{narrow}",
        "nodes": f"{summary['nodes_forward']} forward, {summary['nodes_backward']} backward (training all: {dense})",
        "operations": ", ".join(f"{count(value)} {phase}" for phase, value in summary["flops"].items()),
        "arena": f"{size(summary['arena_bytes'])} (lower bound {size(summary['lower_bound_bytes'])}){of_clip}",
        "parameters": f"{size(summary['param_bytes'])}, optimizer state {size(summary['state_bytes'])}",
        "peak memory": size(summary["predicted_peak_bytes"]) + offloaded,
        **_left_out(summary),
        **_quantised(summary),
    }
    if there and "host_tensors" in summary:
        rows["offloaded"] = f"{summary['host_tensors']} tensors, about {summary['host_share']:.1%} more time"
    if summary["recomputed_nodes"]:
        flops, share = summary["recomputed_flops"], summary["recomputed_share"]
        rows["computed twice"] = (
            f"{summary['recomputed_nodes']} nodes, {count(flops)} operations, about {share:.1%} more time"
        )
    return rows


def _left_out(summary: Mapping[str, Any]) -> dict[str, str]:
    """What the recipe's patterns match and training leaves alone, as the framework does."""
    found = summary["left_out"]
    if not found:
        return {}
    shown = [f"{name} ({why})" for name, why in list(found.items())[:3]]
    more = f", and {len(found) - 3} more (--json lists them)" if len(found) > 3 else ""
    return {"not trained": ", ".join(shown) + more}


def _quantised(summary: Mapping[str, Any]) -> dict[str, str]:
    """What quantising frozen weights lost."""
    found = summary.get("quantised")
    if not found:
        return {}
    worst = max(found, key=lambda name: float(found[name]["relative_rms_error"]))
    mean, most = summary["quantised_error_mean"], summary["quantised_error_worst"]
    text = f"{len(found)}, relative RMS error {mean:.2%} on average, at most {most:.2%} ('{worst}')"
    return {"quantised weights": text}


def show_targets(*, as_json: bool) -> None:
    """The result of `pock targets`."""
    targets = all_targets()
    if as_json:
        print(json.dumps([target.to_dict() for target in targets]))
        return
    table = Table("target", "description", "triple", "cores", "memory", box=None)
    for target in targets:
        memory = backend_of(target).memory(target)
        table.add_row(target.name, target.description, target.triple, str(target.cores), size(memory.nbytes))
    Console().print(table)
