"""Serves a POST with an `Idempotency-Key` once, and replays its answer to repeats of it for a day.

Plain ASGI around the whole application: the answer is kept only after the endpoint's transaction is committed.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass, field

from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pock_server.auth.service import Caller, authenticate
from pock_server.http.bodies import replay
from pock_server.http.problems import Problem, problem_response
from pock_server.idempotency.header import NAME
from pock_server.idempotency.service import Reservation, StoredAnswer, reserve
from pock_server.services import Services


@dataclass
class _Answer:
    """A response on its way to the client."""

    status: int = 0
    body: bytearray = field(default_factory=bytearray)
    complete: bool = False

    def note(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")
            self.complete = not message.get("more_body", False)

    @property
    def worth_keeping(self) -> bool:
        """A failed request did nothing, so it may be repeated."""
        return self.complete and 200 <= self.status < 300


class IdempotencyMiddleware:
    """Guards POSTs to `paths`."""

    def __init__(self, app: ASGIApp, services: Services, paths: Collection[str]) -> None:
        self._app = app
        self._services = services
        self._paths = frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        guarded = scope["type"] == "http" and scope["method"] == "POST" and scope["path"] in self._paths
        key = Request(scope).headers.get(NAME) if guarded else None
        if key is None:
            await self._app(scope, receive, send)
            return
        try:
            claim, body = await self._claim(Request(scope, receive), key)
        except Problem as problem:
            await problem_response(problem.failure, problem.detail, headers=problem.headers)(scope, receive, send)
            return
        if isinstance(claim, StoredAnswer):
            headers = {"Idempotency-Replayed": "true"}
            await JSONResponse(claim.body, status_code=claim.status, headers=headers)(scope, receive, send)
        else:
            await self._serve(claim, body, scope, receive, send)

    async def _claim(self, request: Request, key: str) -> tuple[Reservation | StoredAnswer, bytes]:
        caller = await run_in_threadpool(self._authenticate, request)
        body = await request.body()
        claim = await run_in_threadpool(reserve, self._services, caller, request.url.path, key, body)
        return claim, body

    def _authenticate(self, request: Request) -> Caller:
        kind, _, credential = request.headers.get("Authorization", "").partition(" ")
        with self._services.database.read() as session:
            now = self._services.clock.now()
            return authenticate(session, credential if kind.lower() == "bearer" else None, now)

    async def _serve(self, claim: Reservation, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer()

        async def note(message: Message) -> None:
            answer.note(message)
            if answer.worth_keeping:
                # Before the client has all of it: whoever has an answer gets the same one again.
                await run_in_threadpool(claim.keep, answer.status, json.loads(answer.body))
            await send(message)

        try:
            await self._app(scope, replay(body, receive), note)
        finally:
            if not answer.worth_keeping:
                await run_in_threadpool(claim.release)
