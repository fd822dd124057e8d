"""Sections of docs/performance.md that scripts write, each between two markers, and the figures behind them."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "performance.md"


def write_section(document: Path, name: str, text: str) -> None:
    """Replace what is between the markers of a section. Raises ValueError when the document has no such section."""
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    before, found, rest = document.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{document} has no section '{name}': add the lines '{begin.strip()}' and '{end}'")
    document.write_text(f"{before}{begin}\n{text.strip()}\n\n{end}{after}")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are right-aligned."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def load_figures(path: Path | None) -> dict[str, Any]:
    """The figures in a JSON file; none where it does not exist yet."""
    return dict(json.loads(path.read_text())) if path and path.exists() else {}


def save_figures(path: Path, figures: dict[str, Any]) -> None:
    path.write_text(json.dumps(figures, indent=1) + "\n")


def machine(threads: int) -> dict[str, Any]:
    """What the figures were measured on."""
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "cpu": models[0].split(":", 1)[1].strip() if models else platform.processor(),
        "cores": os.cpu_count(),
        "threads": threads,
        "python": platform.python_version(),
    }


def mib(size: float) -> str:
    count = size / 2**20
    return f"{count:.1f}" if count < 10 else f"{count:.0f}"
