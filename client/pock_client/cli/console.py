"""What the command shows: tables and sentences for a person, JSON for a program.

Names and messages come from a service and from its devices. They are shown as text and never as markup, and cannot
steer a terminal.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

_WIDE = 160
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of Unicode that steer: control characters, changes of direction, ends of lines, what is not assigned."""
_SHORT = 8
_UNKNOWN = "–"


def visible(text: object) -> str:
    """Text of others on one line: what would steer a terminal is written as `\\x1b`, `\\u202e`."""
    return "".join(_escaped(one) if unicodedata.category(one) in _HIDDEN else one for one in str(text))


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


def short(identity: str) -> str:
    """The end of an id, which is its random part: commands take it in place of the id."""
    return identity.replace("-", "")[-_SHORT:]


def size(nbytes: float | None) -> str:
    """Bytes for a person: `12.3 MB`."""
    if nbytes is None:
        return _UNKNOWN
    number = float(nbytes)
    for unit in ("B", "KB", "MB"):
        if number < 1000:
            return f"{number:.0f} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def number(value: float | None) -> str:
    """Four digits; what is not known, or not finite, has no number in JSON."""
    return _UNKNOWN if value is None else f"{value:.4g}"


def rest_words(rest: Any) -> str:
    """Why a device does no work for now and, where that is known, until when, by the clock here."""
    until = "" if rest.until is None else f", until {rest.until.astimezone():%Y-%m-%d %H:%M}"
    return f"{rest.reason}{until}"


def share(value: float | None) -> str:
    """A part of one as `93.2 %`."""
    return _UNKNOWN if value is None else f"{value * 100:.1f} %"


def milliseconds(value: float | None) -> str:
    """A time for a person: `4.21 ms`, `1.3 s`."""
    if value is None:
        return _UNKNOWN
    return f"{value:.3g} ms" if value < 1000 else f"{value / 1000:.1f} s"


def ago(moment: datetime | None) -> str:
    """How long ago, in the largest unit: `3 min ago`."""
    if moment is None:
        return "never"
    seconds = max(0.0, (datetime.now(UTC) - moment).total_seconds())
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def reference(thing: Any) -> str:
    """What to call a model, dataset, recipe or build by in another command: `NAME:v3`, or `NAME` where an older service
    knows no versions."""
    return thing.name if thing.version is None else f"{thing.name}:v{thing.version}"


def reference_of_run(run: Any) -> str:
    """What a run's build is called by; an older service tells only its id."""
    return short(run.build_id) if run.build is None else reference(run.build)


def title_of_run(run: Any) -> str:
    """What a run is called for a person: its build on its device."""
    return f"{short(run.build_id) if run.build is None else run.build.name} on {run.device_name}"


def show_table(titles: Sequence[str], rows: Iterable[Sequence[object]], empty: str) -> None:
    """Rows under titles on stdout; the sentence `empty` where there are none."""
    made = Table(*titles, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        made.add_row(*(Text(visible(cell)) for cell in row))
    if made.row_count:
        _stdout().print(made)
    else:
        note(empty)


def show_pairs(rows: Mapping[str, object]) -> None:
    """Labels and what they say on stdout."""
    made = Table.grid(padding=(0, 2))
    for label, text in rows.items():
        made.add_row(label, Text(visible(text)))
    _stdout().print(made)


def say(text: object) -> None:
    """A line of the result, on stdout."""
    print(visible(text))


def note(text: object) -> None:
    """A line beside the result, on stderr."""
    print(visible(text), file=sys.stderr)


def show_json(value: Any) -> None:
    """One JSON object on one line of stdout, in ASCII: nothing in it can steer a terminal."""
    print(json.dumps(plain(value)), flush=True)


def plain(value: Any) -> Any:
    """What the library answered, in the types of JSON."""
    return msgspec.to_builtins(value)


class _Stdout(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to who calls; a reader that has seen enough is no error."""
        raise BrokenPipeError


def _stdout() -> Console:
    """As wide as the terminal, or wide where a file or a pipe takes it."""
    console = _Stdout(highlight=False, soft_wrap=True, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDE
    return console
