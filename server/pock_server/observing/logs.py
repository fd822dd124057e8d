"""Log lines on stderr: one JSON object a line for machines, text for a terminal.

What others wrote (names, addresses, messages of libraries) can neither start a new line nor steer a terminal, and
credentials are blotted out whoever logs them.
"""

import atexit
import contextlib
import json
import logging
import queue
import re
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

from pock_server.observing.context import current
from pock_server.settings import Settings

_MESSAGE_CHARACTERS = 4_000
_VALUE_CHARACTERS = 500
_TRACE_CHARACTERS = 16_000
_LOOK_AT = 100_000
_SECRETS = (
    (re.compile(r"\b([a-z]{2,4}_[0-9a-f]{32}_)[0-9a-f]{8,64}", re.ASCII), r"\1***"),
    (re.compile(r"(://[^/\s:@]*:)[^/\s@]+@"), r"\1***@"),
    (re.compile(r"(?i)\b((?:bearer|basic)\s+)(?![a-z]{2,4}_[0-9a-f]{32}_\*)\S+"), r"\1***"),
    (re.compile(r"(?i)((?:signature|security-token|credential|password|secret)=)[^&\s'\"]+"), r"\1***"),
)
_QUIET = ("alembic", "celery.redirected", "celery.worker.strategy", "celery.app.trace", "kombu")
"""Libraries that say too much at the level of the rest."""


def fields(**values: object) -> dict[str, Any]:
    """`extra=` of a logging call: words of the line beside its message. None is left out."""
    return {"fields": {name: value for name, value in values.items() if value is not None}}


def configure(settings: Settings) -> None:
    """Send every log line of this process, those of libraries included, to stderr in the chosen form."""
    form = settings.log_format or ("text" if sys.stderr.isatty() else "json")
    handler = PatientHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(root.level, logging.WARNING))
    logging.captureWarnings(True)
    sys.excepthook = _on_uncaught
    threading.excepthook = _on_thread_uncaught


class PatientHandler(logging.Handler):
    """Writes lines in a thread of its own: a reader that stalls must not stall the service, so it loses lines instead.

    A line says how many were lost, as soon as there is room for it.
    """

    def __init__(self, stream: TextIO, room: int = 10_000) -> None:
        super().__init__()
        self._stream = stream
        self._lines: queue.Queue[str | None] = queue.Queue(room)
        self._lost = 0
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def emit(self, record: logging.LogRecord) -> None:
        """Format here, where the task at hand is known; write later."""
        try:
            self._lines.put_nowait(self.format(record))
        except queue.Full:
            self._lost += 1
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """Write what is left, for at most a moment."""
        atexit.unregister(self.close)
        with contextlib.suppress(queue.Full):
            self._lines.put(None, timeout=2)
            self._thread.join(timeout=2)
        super().close()

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            self._put(line)
            lost, self._lost = self._lost, 0
            if lost:
                words = fields(lost=lost)
                record = logging.LogRecord("pock_server.log", logging.ERROR, "", 0, "lines were lost", None, None)
                record.__dict__.update(words)
                self._put(self.format(record))

    def _put(self, line: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a full disk, or nobody there: there is no place to say so
            self._stream.write(line + "\n")
            self._stream.flush()


class JsonLines(logging.Formatter):
    """One ASCII JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "time": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": clean(_message(record), _MESSAGE_CHARACTERS),
            **{name: _value(value) for name, value in _words(record).items()},
        }
        trace = _trace(self, record)
        if trace:
            line["trace"] = trace
        return json.dumps(line)


class TextLines(logging.Formatter):
    """A line for people: moment, level, logger, message, words; a trace is indented below it."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, and those of the trace."""
        name = record.name.removeprefix("pock_server.")
        message = visible(clean(_message(record), _MESSAGE_CHARACTERS))
        words = "".join(f" {key}={visible(str(_value(value)))}" for key, value in _words(record).items())
        line = f"{_moment(record)} {record.levelname:<7} {name}: {message}{words}"
        trace = _trace(self, record)
        return line + "".join(f"\n    | {visible(part)}" for part in trace.splitlines())


def clean(text: str, limit: int) -> str:
    """The text without credentials, and not longer than `limit` characters."""
    text = text[:_LOOK_AT]
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text if len(text) <= limit else text[:limit] + "…"


def visible(text: str) -> str:
    """The text with everything unprintable (line ends, escape sequences, direction marks) spelt out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):
        return str(record.msg)  # a library whose arguments do not fit its message


def _moment(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _words(record: logging.LogRecord) -> Mapping[str, object]:
    task = current()
    return {**(task.words() if task else {}), **getattr(record, "fields", {})}


def _value(value: object) -> object:
    return value if isinstance(value, bool | int | float) else clean(str(value), _VALUE_CHARACTERS)


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """The exception; of a long one the end, which says what happened."""
    if not record.exc_info:
        return ""
    return clean(formatter.formatException(record.exc_info)[-_TRACE_CHARACTERS:], _TRACE_CHARACTERS)


def _on_uncaught(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    logging.getLogger("pock_server").critical("the process ends: %s", error, exc_info=(kind, error, trace))


def _on_thread_uncaught(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_value is not None:
        found = (arguments.exc_type, arguments.exc_value, arguments.exc_traceback)
        logging.getLogger("pock_server").error("a thread ended: %s", arguments.exc_value, exc_info=found)
