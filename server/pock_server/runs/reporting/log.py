"""What happened to a run, line by line: its states and pauses, and what its device told beside steps."""

from collections.abc import Iterable, Sequence
from typing import Any

from pock_server.events.tables import EventRecord
from pock_server.printable import printable

LOGGED = frozenset({"start", "saved", "agent"})
"""The executable's events (docs/reference/binary.md) that are kept as lines, and what the agent itself says."""
MOST_ROWS = 500
"""Of lines that devices told, for one run: what comes later is dropped."""
_MOST_CHARACTERS = 4000
"""Of lines that came together."""
_MOST_OF_A_WORD = 200


def told_lines(events: Sequence[dict[str, Any]]) -> str:
    """Events of a kind in LOGGED as lines."""
    return "\n".join(map(_told, events))[:_MOST_CHARACTERS]


def log_text(rows: Iterable[EventRecord]) -> str:
    """The log as text, each line with the time at which the service knew of it."""
    return "".join(
        f"{row.created_at:%Y-%m-%d %H:%M:%S}Z  {line}\n" for row in rows for line in _sentence(row).splitlines()
    )


def _told(event: dict[str, Any]) -> str:
    if event.get("event") == "agent":
        return f"agent: {_word(event.get('text'))}"
    phase = _word(event.get("phase") or event.get("entry"))
    if event.get("event") == "saved":
        return f"{phase or 'the executable'} saved {_word(event.get('path'))}"
    numbers = ((name, event.get(name)) for name in ("steps", "first_step", "threads", "arena_bytes"))
    known = [f"{name} {value}" for name, value in numbers if type(value) is int and 0 <= value < 1 << 63]
    return f"{phase or 'the executable'} begins: {', '.join(known)}"


def _sentence(row: EventRecord) -> str:
    match row.kind:
        case "state":
            failure = row.data.get("failure") or {}
            why = row.data.get("reason") or (f"failure {failure['code']}, {failure['detail']}" if failure else "")
            return f"{row.data['state']}: {why}" if why else str(row.data["state"])
        case "paused":
            return f"paused: {row.data.get('reason')}"
        case "eval":
            numbers = ((name, row.data.get(name)) for name in ("step", "samples", "loss", "accuracy", "perplexity"))
            told = [f"{name} {value:g}" for name, value in numbers if value is not None]
            return f"{row.data['phase']}: {', '.join(told)}"
        case "log":
            return str(row.data["text"])
    return row.kind


def _word(value: Any) -> str:
    """A text of a device in one line, without what no reader should be sent."""
    return printable(value[:_MOST_OF_A_WORD]) if isinstance(value, str) else ""
