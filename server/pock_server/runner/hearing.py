"""What a child says: JSON lines on its stdout, log lines on its stderr. Whoever wrote the model may have made it say
anything, so every line, list and text is bounded, and a line that is not of the protocol is a line of the log."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import TypeAdapter, ValidationError

from pock_server.builds.schemas import SummaryOut
from pock_server.http.fields import canonical_json, check_json
from pock_server.runner.claims import Broken, Journal
from pock_server.runner.stages import StageClock
from pock_server.targets.schemas import TargetOut

_CHUNK_BYTES = 1 << 16
_LINE_BYTES = 128 << 10
"""No line of the protocol is longer. Each is parsed in the event loop: a longer one would hold up everybody."""
_TOTAL_BYTES = 64 << 20
_LOG_LINE_CHARACTERS = 4000
_LOG_CHARACTERS = 1 << 20
_DETAIL_CHARACTERS = 4000
_SUMMARY_CHARACTERS = 1 << 16
_STAGES = 64
_NAME_CHARACTERS = 100
_LARGEST_COUNT = 2**53
_TARGETS = TypeAdapter(list[TargetOut])


class TalksTooMuch(Exception):
    """The child printed more than anyone could want to read."""


async def read_lines(
    stream: asyncio.StreamReader, line_bytes: int = _LINE_BYTES, total_bytes: float = _TOTAL_BYTES
) -> AsyncIterator[str]:
    """The lines of a stream; of a line too long, its beginning. Raises `TalksTooMuch`."""
    pending, total, skipping = b"", 0, False
    while chunk := await stream.read(_CHUNK_BYTES):
        total += len(chunk)
        if total > total_bytes:
            raise TalksTooMuch
        *whole, pending = (pending + chunk).split(b"\n")
        for line in whole:
            if not skipping:
                yield _text(line)
            skipping = False
        if len(pending) > line_bytes:
            if not skipping:
                yield _text(pending[:line_bytes])
            pending, skipping = b"", True
    if pending and not skipping:
        yield _text(pending)


@dataclass(frozen=True)
class Description:
    """The compiler as its worker described it."""

    version: str
    targets: list[dict[str, Any]]


@dataclass
class Hearing:
    """Everything that one child said that matters; `journal` is what was not written down yet."""

    line_bytes: ClassVar[int] = _LINE_BYTES
    total_bytes: ClassVar[float] = _TOTAL_BYTES
    journal: Journal = field(default_factory=Journal)
    failed: Broken | None = None
    summary: dict[str, Any] | None = None
    compiler: Description | None = None
    clock: StageClock = field(default_factory=StageClock)
    _logged: int = 0
    _stages: set[str] = field(default_factory=set)

    def line(self, text: str) -> None:
        """Take a line of stdout."""
        try:
            message = json.loads(text)
            check_json(message)
            self._take(message)
        except (ValueError, KeyError, TypeError, RecursionError):
            # Something in the compiler printed to stdout: keep it where a person will look for it.
            self.log(text)

    def log(self, text: str) -> None:
        """Add to the log, as long as it is not too long."""
        for line in text.splitlines():
            if self._logged > _LOG_CHARACTERS:
                return
            line = line[:_LOG_LINE_CHARACTERS]
            self._logged += len(line) + 1
            self.journal.lines.append(line if self._logged <= _LOG_CHARACTERS else "(the rest of the log was dropped)")

    def progress(self, stage: str, done: int, total: int) -> None:
        """Note how far a stage is."""
        if len(self._stages | {stage}) > _STAGES:
            raise ValueError("too many stages")
        self._stages.add(stage)
        self.clock.begin(stage)
        fraction = min(1.0, max(0.0, done / total)) if total > 0 else 0.0
        self.journal.stages[stage] = {"stage": stage, "done": done, "total": total, "fraction": fraction}

    def take_journal(self) -> Journal:
        """What was not written down yet; the caller writes it down, or puts it back."""
        journal, self.journal = self.journal, Journal()
        return journal

    def put_back(self, journal: Journal) -> None:
        """It could not be written down."""
        self.journal = Journal(journal.lines + self.journal.lines, {**journal.stages, **self.journal.stages})

    def _take(self, message: dict[str, Any]) -> None:
        match message["event"]:
            case "progress":
                self.progress(_name(message["stage"]), _count(message["done"]), _count(message["total"]))
            case "log":
                self.log(str(message["text"]))
            case "failed":
                self.failed = Broken(_count(message["code"]), str(message["detail"])[:_DETAIL_CHARACTERS])
            case "artifact":
                self.summary = checked_summary(message["summary"])
            case "compiler":
                self.compiler = Description(_name(message["version"]), _checked_targets(message["targets"]))
            case event:
                raise ValueError(f"unknown event {event!r}")


def checked_summary(found: Any) -> dict[str, Any]:
    """A summary that every listing of builds can show; raises ValueError otherwise."""
    if not isinstance(found, dict) or len(canonical_json(found)) > _SUMMARY_CHARACTERS:
        raise ValueError("not a summary, or too long a one")
    SummaryOut.model_validate(found)
    return found


def _checked_targets(found: Any) -> list[dict[str, Any]]:
    try:
        targets = _TARGETS.validate_python(found)
    except ValidationError as error:
        raise ValueError(str(error)) from None
    for target in targets:
        _name(target.name)
    return list(found)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip().replace("\0", "")


def _name(found: Any) -> str:
    if not isinstance(found, str) or not 1 <= len(found) <= _NAME_CHARACTERS or not found.isprintable():
        raise ValueError("not a name")
    return found


def _count(found: Any) -> int:
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= _LARGEST_COUNT:
        raise ValueError("not a count")
    return found
