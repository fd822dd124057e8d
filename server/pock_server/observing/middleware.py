"""Gives every request its id, and an access line and a measurement when it is over; plain ASGI around the application.

The line has the route's template, never the address that was asked for: queries and paths may hold secrets.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pock_server.http.problems import crash_response
from pock_server.observing.context import REQUEST_ID, Task, at_hand, new_request_id
from pock_server.observing.logs import fields

_CLIENT_GONE = 499
"""Status of a request whose client went away before it was answered (as nginx has it)."""
_IDS = ("run_id", "build_id", "device_id", "upload_id", "model_id", "dataset_id")
PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
_access = logging.getLogger("pock_server.access")
_log = logging.getLogger(__name__)


@dataclass
class Served:
    """One request from beginning to end."""

    task: Task
    scope: Scope
    templates: Mapping[str, str]
    started: float = field(default_factory=time.perf_counter)
    answered: int | None = None
    bytes_in: int = 0
    bytes_out: int = 0

    @property
    def status(self) -> int:
        """HTTP status; 499 if there was nobody to answer."""
        return self.answered or _CLIENT_GONE

    @property
    def seconds(self) -> float:
        """Time so far."""
        return time.perf_counter() - self.started

    @property
    def operation(self) -> str:
        """The operation id of the OpenAPI document; never the address, of which there are too many."""
        return getattr(self.scope.get("route"), "name", None) or "other"

    @property
    def route(self) -> str:
        """The route's template, e.g. `/v1/runs/{run_id}`."""
        return self.templates.get(self.operation, "other")


Observe = Callable[[Served], AbstractContextManager[object]]
"""Measures or traces a request while the block lasts."""


class ObservingMiddleware:
    """Wraps everything but the security headers."""

    def __init__(self, app: ASGIApp, observers: Sequence[Observe], templates: Mapping[str, str]) -> None:
        self._app = app
        self._observers = observers
        self._templates = templates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        served = Served(Task(new_request_id(Headers(scope=scope).get(REQUEST_ID))), scope, self._templates)

        async def counted_receive() -> Message:
            message = await receive()
            served.bytes_in += len(message.get("body", b""))
            return message

        async def counted_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                served.answered = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID] = served.task.request_id
            served.bytes_out += len(message.get("body", b""))
            await send(message)

        with at_hand(served.task), ExitStack() as stack:
            for observe in self._observers:
                stack.enter_context(observe(served))
            try:
                await self._serve(served, counted_receive, counted_send)
            finally:
                _write_line(served)

    async def _serve(self, served: Served, receive: Receive, send: Send) -> None:
        try:
            await self._app(served.scope, receive, send)
        except ClientDisconnect:
            if served.answered is not None:
                raise
        except Exception:
            _log.exception("%s %s failed", served.scope["method"], served.route)
            if served.answered is not None:
                raise  # half an answer is on its way: only closing the connection tells the client
            await crash_response()(served.scope, receive, send)


def _write_line(served: Served) -> None:
    client, ids = served.scope.get("client"), served.scope.get("path_params", {})
    level = logging.DEBUG if served.route in PROBES else logging.INFO
    if not _access.isEnabledFor(level):
        return
    words = fields(
        method=served.scope["method"][:20],
        route=served.route,
        status=served.status,
        ms=round(served.seconds * 1000, 1),
        bytes_in=served.bytes_in,
        bytes_out=served.bytes_out,
        address=client[0] if client else None,
        failure_code=served.task.failure_code,
        **{name: str(ids[name])[:36] for name in _IDS if name in ids},
    )
    _access.log(level, "%s %s %d", served.scope["method"][:20], served.route, served.status, extra=words)
