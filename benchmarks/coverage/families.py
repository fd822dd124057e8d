"""Ten steps of a small model of each family with each recipe, beside PyTorch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pockengine.errors import PockError
from tests.compiler.models.agreement import (
    LOSS_TOLERANCE,
    TENSOR_TOLERANCE,
    Agreement,
    agreement,
    imported,
    kinds,
)

PROBLEMS = 3
"""Lines printed of what is wrong with one family and recipe."""

console = Console()


@dataclass(frozen=True)
class Row:
    """One family: operators of the imported graph, and its agreement by recipe or why there is none."""

    family: str
    operators: list[str]
    parameters: int
    import_seconds: float | None
    agreements: dict[str, Agreement | str]

    @property
    def green(self) -> bool:
        return self.import_seconds is not None and all(map(_green, self.agreements.values()))


def measure(names: Sequence[str], wanted: Sequence[str], file: Path | None) -> int:
    """Print the table of the families `names` with the recipes `wanted`; 1 if anything in it is not green."""
    rows = []
    for name in names:
        with console.status(name):
            rows.append(_row(name, wanted))
    console.print(_table(rows, wanted))
    for row in rows:
        for kind, found in row.agreements.items():
            problems = [found] if isinstance(found, str) else found.problems
            for problem in problems[:PROBLEMS]:
                console.print(f"{row.family} {kind}: {problem}", markup=False)
            if len(problems) > PROBLEMS:
                console.print(f"{row.family} {kind}: and {len(problems) - PROBLEMS} more (--json shows all)")
    green = sum(row.green for row in rows)
    console.print(f"{green} of {len(rows)} families are green")
    if file:
        file.write_text(json.dumps([_facts(row) for row in rows], indent=1) + "\n")
    return 0 if green == len(rows) else 1


def _row(name: str, wanted: Sequence[str]) -> Row:
    try:
        model = imported(name)
    except Exception as error:
        return Row(name, [], 0, None, {"import": _reason(error)})
    found: dict[str, Agreement | str] = {}
    for kind in kinds(model.family):
        if kind in wanted:
            try:
                found[kind] = agreement(name, kind)
            except Exception as error:
                found[kind] = _reason(error)
    return Row(name, model.operators, sum(v.type.size for v in model.graph.params), model.seconds, found)


def _reason(error: Exception) -> str:
    """One line; an error that is not ours keeps its type. Whatever one family does, the others are still tried."""
    return str(error) if isinstance(error, PockError) else f"{type(error).__name__}: {error}"


def _green(found: Agreement | str) -> bool:
    return isinstance(found, Agreement) and not found.problems


def _table(rows: Sequence[Row], wanted: Sequence[str]) -> Table:
    table = Table(title="Ten training steps against PyTorch: difference as a share of what is allowed")
    table.add_column("family")
    for title in ("parameters", "imported", "operators", *wanted):
        table.add_column(title, justify="right")
    for row in rows:
        seconds = "[red]no[/red]" if row.import_seconds is None else f"{row.import_seconds:.1f} s"
        cells = [_cell(row.agreements.get(kind)) for kind in wanted]
        table.add_row(row.family, f"{row.parameters:,}", seconds, str(len(row.operators)), *cells)
    return table


def _cell(found: Agreement | str | None) -> str:
    if found is None:
        return "-"
    if isinstance(found, str):
        return "[red]fails[/red]"
    share = max(found.loss / LOSS_TOLERANCE, found.tensor / TENSOR_TOLERANCE)
    colour = "green" if _green(found) else "red"
    return f"[{colour}]{share:.1%}[/{colour}]"


def _facts(row: Row) -> dict[str, Any]:
    """A row as JSON."""
    return {**asdict(row), "green": row.green}
