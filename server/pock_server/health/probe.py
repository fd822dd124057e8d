"""Asks dependencies at most once a second and never waits long for them, however many ask about their health."""

import asyncio
from collections.abc import Callable
from time import monotonic

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from pock_server.health.schemas import Check

_KEEP_SECONDS = 1.0
_WAIT_SECONDS = 5.0


class Probe:
    """One question at a time, in a thread of its own: the pool may be full of requests that wait for the database."""

    def __init__(self) -> None:
        self._question: asyncio.Task[list[Check]] | None = None
        self._answered_at = 0.0

    async def ask(self, check_all: Callable[[], list[Check]]) -> list[Check]:
        """What `check_all` found within the last second, or finds now; a failed check if it does not come back."""
        question = self._question
        if question is None or (question.done() and monotonic() - self._answered_at > _KEEP_SECONDS):
            question = self._question = asyncio.create_task(self._answer(check_all))
        done, _ = await asyncio.wait((question,), timeout=_WAIT_SECONDS)
        if not done:
            return [Check(name="answer", ok=False, detail=f"no answer within {_WAIT_SECONDS:g} s")]
        return question.result()

    async def _answer(self, check_all: Callable[[], list[Check]]) -> list[Check]:
        try:
            return await run_sync(check_all, limiter=CapacityLimiter(1))
        finally:
            self._answered_at = monotonic()
