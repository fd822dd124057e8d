"""Serves a POST with an `Idempotency-Key` once, and replays its answer to repeats of it for a day.

Plain ASGI around the whole application: it reserves the key before the endpoint does anything. The endpoint keeps its
answer itself, in the transaction of its work (`header.Once`).
"""

from collections.abc import Collection
from contextlib import suppress

from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pock_server.auth.service import Caller, unknown_key
from pock_server.gate.credentials import CALLER
from pock_server.http.bodies import replay
from pock_server.http.problems import DATABASE_DOWN, Problem, database_down, problem_response
from pock_server.idempotency.header import NAME, STATE
from pock_server.idempotency.service import Reservation, StoredAnswer, reserve
from pock_server.services import Services


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
        except DATABASE_DOWN as error:
            await database_down(error)(scope, receive, send)
            return
        if isinstance(claim, StoredAnswer):
            headers = {"Idempotency-Replayed": "true"}
            await JSONResponse(claim.body, status_code=claim.status, headers=headers)(scope, receive, send)
        else:
            await self._serve(claim, body, scope, receive, send)

    async def _claim(self, request: Request, key: str) -> tuple[Reservation | StoredAnswer, bytes]:
        caller = getattr(request.state, CALLER, None)
        if not isinstance(caller, Caller):
            raise unknown_key()
        body = await request.body()
        claim = await run_in_threadpool(reserve, self._services, caller, request.scope["path"], key, body)
        return claim, body

    async def _serve(self, claim: Reservation, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})[STATE] = claim
        held = True

        async def release() -> None:
            nonlocal held
            if held:
                held = False
                with suppress(*DATABASE_DOWN):  # then the reservation is void after a while
                    await run_in_threadpool(claim.release)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 400:
                await release()  # before anybody knows: the repeat may be here, or at another process, at once
            await send(message)

        try:
            await self._app(scope, replay(body, receive), answer)
        finally:
            await release()
