"""Server-sent events out of bytes (HTML standard, section 9.2.6), with bounds on what one may hold."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pock_client.errors import Damaged

MOST_BYTES = 8 << 20
"""Of one line, and of all data of one event."""
_END = re.compile(rb"\r\n|\n|\r(?!$)")


@dataclass(frozen=True)
class Sent:
    """One event as it was sent."""

    id: int
    kind: str
    data: bytes


class Parser:
    """Takes the bytes of a stream as they come."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._searched = 0
        self._id = 0
        self._kind = "message"
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[Sent]:
        """The events that are whole now. Raises Damaged for what a service of ours does not send."""
        self._rest += chunk
        found: list[Sent] = []
        start = 0
        while (end := _END.search(self._rest, max(start, self._searched))) is not None:
            event = self._line(bytes(self._rest[start : end.start()]))
            if event is not None:
                found.append(event)
            start = end.end()
        del self._rest[:start]
        if len(self._rest) > MOST_BYTES:
            raise Damaged(f"a line of the service's events is longer than {MOST_BYTES} bytes")
        self._searched = max(0, len(self._rest) - 1)
        return found

    def _line(self, line: bytes) -> Sent | None:
        if not line:
            return self._finish()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._size += len(value) + 1
            if self._size > MOST_BYTES:
                raise Damaged(f"one of the service's events is longer than {MOST_BYTES} bytes")
            self._data.append(value)
        elif name == b"event":
            self._kind = value[:200].decode("utf-8", "replace")
        elif name == b"id":
            if not re.fullmatch(rb"[0-9]{1,10}", value):
                raise Damaged("one of the service's events has a number that is none")
            self._id = int(value)
        return None

    def _finish(self) -> Sent | None:
        event = Sent(self._id, self._kind, b"\n".join(self._data)) if self._data else None
        self._kind, self._data, self._size = "message", [], 0
        return event
