"""HTTP/1.1 on a socket: uvicorn's own protocol, with limits on what a client may send, and how slowly."""

import asyncio
from enum import Enum
from typing import Any, ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pock_server.http.guard import TICK_SECONDS, Guard
from pock_server.http.problems import Failure, problem_response

_PIPELINE = 8
"""Requests that may wait for the answer to an earlier one of their connection."""
_DRAIN_BYTES = 16 << 20
"""What is read, and thrown away, of a body after its request was answered, so that the connection stays usable."""
_REASONS = {400: "Bad Request", 408: "Request Timeout", 431: "Request Header Fields Too Large", 503: "Busy"}


class _Refused(Exception):
    """Stops the parser; carries what the client is told."""

    def __init__(self, failure: Failure, detail: str) -> None:
        super().__init__(detail)
        self.failure = failure
        self.detail = detail


class _Reading(Enum):
    """What comes next from the client."""

    IDLE = "nothing, or another request"
    HEAD = "the rest of a request's head"
    BODY = "the rest of a request's body"


class GuardedProtocol(HttpToolsProtocol):
    """One connection; subclasses set `guard`."""

    guard: ClassVar[Guard]

    _reading = _Reading.HEAD
    _since = 0.0  # when the head, or the body, began
    _body_bytes = 0
    _body_at = 0.0  # when the body's last bytes came
    _head_bytes = 0
    _unparsed = 0  # bytes since the parser last understood something: it keeps them
    _begun = 0  # heads that began in the bytes received last
    _drained = 0
    _silent = True  # nothing was ever received
    _stalled: tuple[float, int] | None = None  # since when the client does not read, and what it had to read
    _unread = (0.0, 0)  # when it has read last, and what it has not

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Let the client in, or tell it to come back."""
        super().connection_made(transport)
        self._since = self.loop.time()
        if not self.guard.admit(self, self.client[0] if self.client else None):
            self._refuse(Failure.BUSY, "Too many connections are open; close some, or try again in a few seconds.")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.guard.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what has come; what is longer than its limit ends the connection."""
        if self.transport.is_closing():
            return
        self._silent = False
        if self._reading is _Reading.IDLE:
            self._await_head()
        one_head = self._reading is _Reading.HEAD
        self._begun = 0
        self._unparsed += len(data)
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # no other protocol is spoken here: the request is served, and the connection closed
        except httptools.HttpParserError as error:
            cause = error.__context__
            if isinstance(cause, _Refused):
                self._refuse(cause.failure, cause.detail)
            else:
                self._refuse(Failure.REQUEST_REFUSED, "This is no request of HTTP/1.1.")
        else:
            if one_head and self._reading is _Reading.HEAD and self._begun <= 1:
                # Understood in part at most, and all of it one head: the parser keeps what it did not report.
                self._unparsed = max(self._unparsed, len(data))
            if self._unparsed > self.guard.limits.header_bytes:
                self._refuse(*self._too_long())

    # The parser calls these.

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self._begun += 1
        self._await_head()
        self._head_bytes = self._body_bytes = self._drained = 0

    def on_url(self, url: bytes) -> None:
        """A part of the address."""
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer."""
        self._count_head(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Serve the request, unless too many are in front of it."""
        self._unparsed = 0
        if len(self.pipeline) >= _PIPELINE:
            raise _Refused(Failure.BUSY, "Wait for the answers to earlier requests of this connection.")
        self._reading, self._since = _Reading.BODY, self.loop.time()
        self._body_at = self._since
        super().on_headers_complete()
        # A client that was not asked for the body may send it or not: nobody can say where its next request begins.
        if self.expect_100_continue or self.parser.should_upgrade():
            self.cycle.keep_alive = False

    def on_chunk_header(self) -> None:
        """The size of a chunk."""
        self._unparsed = 0

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._unparsed = 0
        self._body_bytes += len(body)
        self._body_at = self.loop.time()
        if self.cycle.response_complete:
            self._drained += len(body)
            if self._drained > _DRAIN_BYTES:
                self.transport.abort()
                return
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The end of a request."""
        self._unparsed = 0
        self._reading = _Reading.IDLE
        super().on_message_complete()

    # The transport calls these.

    def pause_writing(self) -> None:
        """The client does not read as fast as it is answered."""
        self._stalled = (self.loop.time(), self.transport.get_write_buffer_size())
        super().pause_writing()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._stalled = None
        super().resume_writing()

    def look(self, now: float) -> None:
        """End what takes too long; called by the guard."""
        self._look_at_reader(now)
        if self.transport.is_closing() or self._reading is _Reading.IDLE:
            return
        limits = self.guard.limits
        if self._reading is _Reading.HEAD:
            if now - self._since > limits.header_seconds:
                self._give_up(f"A request's head must arrive within {limits.header_seconds:g} s.")
        elif self.flow.read_paused:
            self._since += TICK_SECONDS  # it is this service that does not go on
            self._body_at += TICK_SECONDS
        elif now - self._since > limits.allowed_seconds(self._body_bytes) or now - self._body_at > limits.slow_seconds:
            rate = f"{limits.bytes_per_second:g} bytes a second"
            self._give_up(f"A request's body must arrive with {rate}, and without pauses of {limits.slow_seconds:g} s.")

    def _look_at_reader(self, now: float) -> None:
        if self._stalled is None:
            if self.transport.is_closing():
                self._stalled = (now, self.transport.get_write_buffer_size())
            return
        since, size = self._stalled
        left = self.transport.get_write_buffer_size()
        if left < self._unread[1] or self._unread[0] < since:
            self._unread = (now, left)
        limits = self.guard.limits
        if now - since > limits.allowed_seconds(max(0, size - left)) or now - self._unread[0] > limits.slow_seconds:
            self.transport.abort()

    def _await_head(self) -> None:
        if self._reading is not _Reading.HEAD:
            self._reading, self._since = _Reading.HEAD, self.loop.time()

    def _count_head(self, size: int) -> None:
        self._unparsed = 0
        self._head_bytes += size
        if self._head_bytes > self.guard.limits.header_bytes:
            raise _Refused(*self._too_long())

    def _too_long(self) -> tuple[Failure, str]:
        limit = self.guard.limits.header_bytes
        return Failure.HEADERS_TOO_LARGE, f"A request's address and headers have at most {limit} bytes."

    def _give_up(self, detail: str) -> None:
        if self._silent:
            self.transport.close()  # a browser that connected in advance expects no answer
        else:
            self._refuse(Failure.TOO_SLOW, detail)

    def _refuse(self, failure: Failure, detail: str) -> None:
        """Say why, and close. Where that would be taken for, or be in, the answer to another request: only close."""
        served = self.cycle is None or self.cycle.response_complete
        if self._reading is _Reading.BODY:
            mine = not served and not self.cycle.response_started
        else:
            mine = served
        if not mine:
            self.transport.abort()
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # the application must not answer, too
            self.cycle.message_event.set()
        self.guard.refused(failure.code, self.client[0] if self.client else None)
        answer = problem_response(failure, detail, headers={"Retry-After": "5"} if failure.retryable else None)
        status = f"HTTP/1.1 {answer.status_code} {_REASONS[answer.status_code]}"
        lines = [status, *(f"{name}: {value}" for name, value in answer.headers.items()), "connection: close", "", ""]
        self.transport.write("\r\n".join(lines).encode("latin-1") + bytes(answer.body))
        self.transport.close()


def protocol_class(guard: Guard) -> type[asyncio.Protocol]:
    """The class that uvicorn makes one object of for each connection."""
    members: dict[str, Any] = {"guard": guard}
    return type("Protocol", (GuardedProtocol,), members)
