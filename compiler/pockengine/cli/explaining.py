"""What `pock compile --explain` shows a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from .console import size, wide

_ALIVE = 12

Explanation = Mapping[str, Any]


def show_explanation(explanation: Explanation) -> None:
    """Every part of `insight.explain`, as tables and sentences."""
    console = wide()
    console.print(_regions(explanation["regions"]))
    console.print(_contractions(explanation["contractions"]))
    _not_fused(console, explanation["not_fused"])
    _in_place(console, explanation["in_place"])
    transposes = explanation["transposes"]
    moved = size(sum(row["nbytes"] for row in transposes))
    console.print(f"\nTransposed: {len(transposes)} tensors, which moves {moved} a step", markup=False)
    folded = explanation["folded"]
    line = f"\nFolded: {len(folded['parameters'])} parameters ({size(folded['parameter_bytes'])}) became part of "
    console.print(f"{line}{folded['constants']} constants ({size(folded['constant_bytes'])})", markup=False)
    for name in folded["parameters"]:
        console.print(f"  {name}", markup=False)
    if explanation["quantised"]:
        console.print(_quantised(explanation["quantised"]))
    _recomputed(console, explanation["recomputed"])
    _masks(console, explanation["masks"])
    _peak(console, explanation["peak"])


def _table(title: str, *columns: str) -> Table:
    return Table(*columns, box=None, title=f"\n{title}", title_justify="left")


def _regions(regions: list[Explanation]) -> Table:
    fused = sum(len(row["operators"]) > 1 for row in regions)
    table = _table(
        f"Steps: {len(regions)}, of which {fused} are several operators in one", "", "layer", "phase", "kind"
    )
    for column in ("operators", "writes", "updates"):
        table.add_column(column)
    for row in regions:
        operators = " ".join(row["operators"])
        if row["while_packing"]:
            operators += f" (while packing: {' '.join(row['while_packing'])})"
        texts = (row["layer"], row["phase"], row["kind"], operators, " ".join(row["writes"]))
        table.add_row(str(row["index"]), *map(_escaped, texts), _escaped(" ".join(row["updates"])))
    return table


def _contractions(rows: list[Explanation]) -> Table:
    table = _table("Contractions", "", "layer", "kernel", "in", "schedule", "chosen by", "expected of peak")
    for row in rows:
        share = row["expected_share_of_peak"]
        texts = (row["layer"], row["family"], row["multiplies_in"], row["schedule"], row["chosen_by"])
        table.add_row(str(row["index"]), *map(_escaped, texts), "" if share is None else f"{share:.0%}")
    return table


def _not_fused(console: Console, missed: list[Explanation]) -> None:
    by_reason: dict[str, list[str]] = {}
    for row in missed:
        by_reason.setdefault(row["reason"], []).append(f"'{row['first']}' and '{row['second']}'")
    console.print(f"\nStayed apart although neighbours: {len(missed)}", markup=False)
    for reason, pairs in by_reason.items():
        more = f" and {len(pairs) - 1} more" if len(pairs) > 1 else ""
        console.print(f"  {pairs[0]}{more}: {reason}", markup=False)


def _in_place(console: Console, rows: list[Explanation]) -> None:
    spaces: dict[str, list[int]] = {}
    for row in rows:
        spaces.setdefault(row["space"], []).append(row["nbytes"])
    parts = [f"{len(sizes)} in the {space} block ({size(sum(sizes))})" for space, sizes in spaces.items()]
    console.print(f"\nWritten in place: {', '.join(parts) or 'nothing'}", markup=False)


def _quantised(rows: list[Explanation]) -> Table:
    table = _table("Quantised weights", "weight", "format", "block", "size", "relative RMS error")
    for row in rows:
        texts = (row["name"], row["format"], str(row["block"]), size(row["nbytes"]))
        table.add_row(*map(_escaped, texts), f"{row['relative_rms_error']:.2%}")
    return table


def _recomputed(console: Console, recomputed: Explanation) -> None:
    reasons: dict[str, list[Explanation]] = {}
    for row in recomputed["values"]:
        reasons.setdefault(row["why"], []).append(row)
    share = recomputed["share_of_time"]
    cost = f"; {share:.1%} more time is expected to keep to the memory allowed" if share else ""
    console.print(f"\nComputed twice: {len(recomputed['values'])} values{cost}", markup=False)
    for why, rows in reasons.items():
        console.print(f"  {len(rows)} ({size(sum(row['nbytes'] for row in rows))}): {why}", markup=False)
        for row in rows:
            console.print(f"    {row['value']} in '{row['layer']}', {size(row['nbytes'])}", markup=False)


def _masks(console: Console, rows: list[Explanation]) -> None:
    sizes = (size(sum(row[key] for row in rows)) for key in ("nbytes", "as_bools"))
    line = f"\nKept as bits: {len(rows)} masks" + (", {} instead of {}".format(*sizes) if rows else "")
    console.print(line, markup=False)
    for row in rows:
        console.print(f"    {row['value']} in '{row['layer']}', {size(row['nbytes'])}", markup=False)


def _peak(console: Console, peak: Explanation) -> None:
    line = f"\nMost memory at step {peak['index']} ('{peak['layer']}', {peak['phase']}): {size(peak['live_bytes'])} of "
    console.print(f"{line}{size(peak['arena_bytes'])} arena", markup=False)
    table = Table("value", "kind", "size", "made by", "needed until", box=None)
    for row in peak["alive"][:_ALIVE]:
        texts = (row["value"], row["kind"], size(row["nbytes"]), row["layer"], row["needed_until"])
        table.add_row(*map(_escaped, texts))
    if rest := peak["alive"][_ALIVE:]:
        table.add_row(f"{len(rest)} more", "", size(sum(row["nbytes"] for row in rest)))
    console.print(table)


def _escaped(text: str) -> str:
    """`f32[8]` is no markup."""
    return text.replace("[", "\\[")
