"""Limits JSON bodies. Every POST carries JSON and is read whole here; PATCH and PUT carry blobs and stream through."""

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pock_server.http.problems import Failure, problem_response


def replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body once more, and then whatever comes after it."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again


class BodyLimitMiddleware:
    """Answers 413 to POSTs with more than `limit` bytes."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = bytearray()
        try:
            async for chunk in Request(scope, receive).stream():
                body += chunk
                if len(body) > self._limit:
                    detail = f"At most {self._limit} bytes are accepted here; send files as uploads."
                    await problem_response(Failure.TOO_LARGE, detail)(scope, receive, send)
                    return
        except ClientDisconnect:
            return
        await self._app(scope, replay(bytes(body), receive), send)
