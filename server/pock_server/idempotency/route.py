"""A route class whose POSTs honour `Idempotency-Key`; GETs pass through."""

import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.responses import Response

from pock_server.auth.service import Caller, authenticate
from pock_server.dependencies import get_services
from pock_server.idempotency.service import StoredAnswer, reserve

HEADER = "Idempotency-Key"


def _declare_header(
    idempotency_key: Annotated[
        str | None, Header(min_length=1, max_length=200, description="Repeats with this key are answered once.")
    ] = None,
) -> None:
    """Puts the header into the OpenAPI document; `IdempotentRoute` reads it."""


IDEMPOTENT = Depends(_declare_header)
"""For `dependencies=` of every POST on an `IdempotentRoute`."""


class IdempotentRoute(APIRoute):
    """Serves the first request with a key and replays its answer to repeats of it for a day."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The usual handler, wrapped."""
        handler = super().get_route_handler()

        async def wrapped(request: Request) -> Response:
            key = request.headers.get(HEADER)
            if request.method != "POST" or key is None:
                return await handler(request)
            return await _serve_once(request, key, handler)

        return wrapped


async def _serve_once(request: Request, key: str, handler: Callable[[Request], Awaitable[Response]]) -> Response:
    caller = await run_in_threadpool(_authenticate, request)
    body = await request.body()
    claim = await run_in_threadpool(reserve, get_services(request), caller, request.url.path, key, body)
    if isinstance(claim, StoredAnswer):
        return JSONResponse(claim.body, status_code=claim.status, headers={"Idempotency-Replayed": "true"})
    try:
        response = await handler(request)
    except BaseException:
        await run_in_threadpool(claim.release)
        raise
    await run_in_threadpool(claim.keep, response.status_code, json.loads(bytes(response.body)))
    return response


def _authenticate(request: Request) -> Caller:
    services = get_services(request)
    kind, _, credential = request.headers.get("Authorization", "").partition(" ")
    with services.database.read() as session:
        return authenticate(session, credential if kind.lower() == "bearer" else None, services.clock.now())
