"""Reads the bodies of requests whole, each within its limit and all of them within one budget of memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import Request
from starlette.types import Message, Receive

from pock_server.http.problems import Failure, Problem


def replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body once more, and then whatever comes after it."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again


class Budget:
    """Bytes of bodies that may be in memory at once."""

    def __init__(self, size: int) -> None:
        self.free = size

    def take(self, size: int) -> None:
        """Reserve bytes; a 503 `Problem` if there are not as many."""
        if size > self.free:
            raise Problem(Failure.BUSY, "Too many requests are being read at once; try again.", {"Retry-After": "2"})
        self.free -= size

    def give_back(self, size: int) -> None:
        """The bytes are free again."""
        self.free += size


@asynccontextmanager
async def whole_body(request: Request, limit: int, budget: Budget) -> AsyncIterator[bytes]:
    """The body, counted in `budget` while the block runs.

    Raises a 413 `Problem` for more than `limit` bytes, before any is read if the request says so, a 503 one when the
    budget is spent, and `ClientDisconnect`.
    """
    too_large = Problem(Failure.TOO_LARGE, f"At most {limit} bytes are accepted here; send files as uploads.")
    announced = request.headers.get("Content-Length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise too_large
    taken, parts = 0, bytearray()
    try:
        async for part in request.stream():
            if taken + len(part) > limit:
                raise too_large
            budget.take(len(part))
            taken += len(part)
            parts += part
        yield bytes(parts)
    finally:
        budget.give_back(taken)
