"""Serves a POST with an `Idempotency-Key` once, and replays its answer to repeats of it for a day.

Plain ASGI around the whole application: it reserves the key before the endpoint does anything. The endpoint keeps its
answer itself, in the transaction of its work (`header.Once`).
"""

import asyncio
import time
from collections import deque
from collections.abc import Collection

from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pock_server.auth.service import Caller, unknown_key
from pock_server.gate.credentials import CALLER
from pock_server.http.bodies import replay
from pock_server.http.problems import DATABASE_DOWN, Problem, database_down, problem_response
from pock_server.idempotency.header import NAME, STATE
from pock_server.idempotency.service import ABANDONED_AFTER, Reservation, StoredAnswer
from pock_server.services import Services

_AGAIN_SECONDS = 0.5


class IdempotencyMiddleware:
    """Guards POSTs to `paths`."""

    def __init__(self, app: ASGIApp, services: Services, paths: Collection[str]) -> None:
        self._app = app
        self._services = services
        self._paths = frozenset(paths)
        self._leftovers = _Leftovers()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        guarded = scope["type"] == "http" and scope["method"] == "POST" and scope["path"] in self._paths
        key = Request(scope).headers.get(NAME) if guarded else None
        if key is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            claim = self._claim(request, key)
            body = await request.body()
            stored = await self._take(claim, body)
        except Problem as problem:
            await problem_response(problem.failure, problem.detail, headers=problem.headers)(scope, receive, send)
            return
        except DATABASE_DOWN as error:
            await database_down(error)(scope, receive, send)
            return
        if stored is not None:
            headers = {"Idempotency-Replayed": "true"}
            await JSONResponse(stored.body, status_code=stored.status, headers=headers)(scope, receive, send)
        else:
            await self._serve(claim, body, scope, receive, send)

    def _claim(self, request: Request, key: str) -> Reservation:
        caller = getattr(request.state, CALLER, None)
        if not isinstance(caller, Caller):
            raise unknown_key()
        return Reservation.of(self._services, caller, request.scope["path"], key)

    async def _take(self, claim: Reservation, body: bytes) -> StoredAnswer | None:
        try:
            return await run_in_threadpool(claim.take, body)
        except DATABASE_DOWN:
            self._leftovers.add(claim)
            raise

    async def _serve(self, claim: Reservation, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})[STATE] = claim
        held = True

        async def release() -> None:
            nonlocal held
            if held:
                held = False
                try:
                    await run_in_threadpool(claim.release)
                except DATABASE_DOWN:
                    self._leftovers.add(claim)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 400:
                await release()  # before anybody knows: the repeat may be here, or at another process, at once
            await send(message)

        try:
            await self._app(scope, replay(body, receive), answer)
        finally:
            await release()


class _Leftovers:
    """Reservations that were not released because the database was gone: released once it is back, so that a client's
    repeat need not wait until they are void. One after the other: each attempt may wait for a connection."""

    def __init__(self) -> None:
        self._left: deque[tuple[float, Reservation]] = deque()
        self._task: asyncio.Task[None] | None = None

    def add(self, claim: Reservation) -> None:
        """Release this one later."""
        self._left.append((time.monotonic(), claim))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._release())

    async def _release(self) -> None:
        while self._left:
            since, claim = self._left[0]
            try:
                if time.monotonic() - since < ABANDONED_AFTER.total_seconds():  # else it is void
                    await run_in_threadpool(claim.release)
            except DATABASE_DOWN:
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                self._left.popleft()
