"""Reads and checks long JSON bodies in a thread: in the event loop nobody else would be served meanwhile."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from pock_server import json_texts
from pock_server.http.problems import Failure, Problem

Check = Callable[..., tuple[Any, list[Any]]]


class LongBodies(APIRoute):
    """A route whose body may be long; for short ones it is like any other."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route's handler, given requests that read their long bodies in a thread."""
        handle, field = super().get_route_handler(), self.body_field
        if field is None:
            return handle

        async def handler(request: Request) -> Response:
            try:
                return await handle(_LongBody(request, field.validate))
            except _Refused as refused:
                raise refused.error from None

        return handler


class _Refused(HTTPException):
    """Brings an error through FastAPI's reading of bodies, which makes of others that there was one."""

    def __init__(self, error: Exception) -> None:
        super().__init__(422)
        self.error = error


class _LongBody(Request):
    """Says that its JSON is what the endpoint is given: FastAPI checks only that it is."""

    def __init__(self, request: Request, check: Check) -> None:
        super().__init__(request.scope, request.receive)
        self._check = check

    async def json(self) -> Any:
        """The body's value, or of a long one what the endpoint takes."""
        body = await self.body()
        if len(body) < json_texts.LONG:
            return await super().json()
        return await run_in_threadpool(self._read, body)

    def _read(self, body: bytes) -> Any:
        try:
            json_texts.refuse_many_parts(body)
        except json_texts.TooManyParts as error:
            raise _Refused(Problem(Failure.INVALID, f"body: {error}.")) from None
        found, errors = self._check(json_texts.read(body), loc=("body",))
        if errors:
            raise _Refused(RequestValidationError(errors))
        return found
