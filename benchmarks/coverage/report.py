"""The results of a sweep as a table in a terminal, and as a section of docs/models.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median

from rich.table import Table

from benchmarks.document import table as markdown
from benchmarks.document import write_section

from .architectures import architectures
from .outcomes import Outcome
from .sweep import Record

SECTION = "architectures"
_LONGEST = 240
"""Characters of a reason in the document, from which on only its first sentence stays."""

_SENTENCE_END = re.compile(r"(?<=[a-z0-9)'\"])[.!?]\s+(?=[A-Z])")


def table(records: Sequence[Record]) -> Table:
    """How many architectures came to which outcome."""
    counts = Counter(record["outcome"] for record in records)
    made = Table(title=f"{len(records)} architectures of transformers {version('transformers')}")
    for title, side in (("outcome", "left"), ("architectures", "right")):
        made.add_column(title, justify="left" if side == "left" else "right")
    for outcome in Outcome:
        if counts[outcome.value]:
            made.add_row(outcome.value, str(counts[outcome.value]))
    for stage in ("import", "compile"):
        if seconds := [record["seconds"][stage] for record in records if stage in record["seconds"]]:
            made.add_row(f"{stage}, median", f"{median(seconds):.1f} s")
    return made


def write(document: Path, records: Sequence[Record]) -> None:
    """Replace the section of the document. Raises ValueError when it has no such section."""
    write_section(document, SECTION, text(records))


def text(records: Sequence[Record]) -> str:
    """Counts, then everything that does not agree with its reason, then the names of what does."""
    counts = Counter(record["outcome"] for record in records)
    trained = len(records) - counts[Outcome.UNTRAINED]
    machine = sum("compile" in record["seconds"] for record in records if record["outcome"] == Outcome.AGREES)
    parts = [
        f"transformers {version('transformers')}, torch {version('torch')}: {len(records)} of {len(architectures())} "
        f"architectures were tried; {trained} train in PyTorch as they are built here. Of those that agree, {machine} "
        "ran as machine code, the others in the interpreter.",
        markdown(
            ("outcome", "architectures"),
            [(outcome.value, str(counts[outcome.value])) for outcome in Outcome if counts[outcome.value]],
        ),
    ]
    for outcome in _TITLES:
        if counts[outcome.value]:
            parts += [f"### {_TITLES[outcome]}", _reasons([r for r in records if r["outcome"] == outcome])]
    agreeing = [record["model_type"] for record in records if record["outcome"] == Outcome.AGREES]
    parts += ["### Architectures that agree", ", ".join(agreeing) + "."]
    return "\n\n".join(parts)


_TITLES: Mapping[Outcome, str] = {
    Outcome.WRONG: "Other numbers than PyTorch's",
    Outcome.FAILS: "Errors that say nothing to a user",
    Outcome.REFUSED: "Refused when compiling",
    Outcome.REFUSED_IMPORT: "Refused by `from_torch`",
    Outcome.OPEN: "Other numbers, where the order of equal numbers decides, which PyTorch leaves open",
    Outcome.UNTRAINED: "Not trained in PyTorch by this script",
}


def _reasons(records: Sequence[Record]) -> str:
    """One row for each reason, with all architectures that have it."""
    names: dict[str, list[str]] = {}
    for record in records:
        names.setdefault(_cell(record["reason"].replace(record["class_name"], "the module")), []).append(
            record["model_type"]
        )
    rows = sorted(names.items(), key=lambda item: (-len(item[1]), item[1]))
    lines = ["| architectures | reason |", "| --- | --- |"]
    return "\n".join([*lines, *(f"| {', '.join(types)} | {reason} |" for reason, types in rows)])


def _cell(reason: str) -> str:
    """A reason on one line that Markdown leaves as it is."""
    if len(reason) > _LONGEST:
        reason = _SENTENCE_END.split(reason, maxsplit=1)[0]
    return reason.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
