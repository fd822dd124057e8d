"""The children that answer questions: a few, for the models that are asked about; who was not asked for long goes."""

import asyncio
import time
from collections import OrderedDict
from typing import Any

from pock_server.checks.clerk import Clerk, Gone
from pock_server.http.problems import Failure, Problem
from pock_server.services import Services

_IDLE_SECONDS = 300.0
_MOST_WAITING = 16
"""Questions on one model that wait for their turn."""

_Key = tuple[str, str]


class Desk:
    """Finds who answers a question. Its methods are called in the event loop."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._clerks: OrderedDict[_Key, Clerk] = OrderedDict()
        self._asked_at: dict[_Key, float] = {}

    async def ask(self, workspace_id: str, model_id: str, question: dict[str, Any], gone: Gone) -> dict[str, Any]:
        """The answer to a question on a model. Raises `Refusal`, `Left`, `Problem`."""
        key = (workspace_id, model_id)
        if key not in self._clerks:
            await self._make_room()
        clerk = self._clerks.setdefault(key, Clerk(self._services, *key))
        if clerk.waiting >= _MOST_WAITING:
            raise Problem(Failure.BUSY, "Too many questions on this model wait; ask again in a few seconds.", _SOON)
        self._clerks.move_to_end(key)
        self._asked_at[key] = time.monotonic()
        return await clerk.ask(question, gone)

    async def _make_room(self) -> None:
        """Let go who was asked least lately; a 503 `Problem` where all are busy."""
        while len(self._clerks) >= self._services.settings.check_processes:
            key = next((key for key, clerk in self._clerks.items() if not clerk.waiting), None)
            if key is None:
                raise Problem(Failure.BUSY, "All who look at models are busy; ask again in a few seconds.", _SOON)
            await self._let_go(key)

    async def _let_go(self, key: _Key) -> None:
        clerk = self._clerks.pop(key)
        self._asked_at.pop(key, None)
        await clerk.close()

    async def tidy_forever(self) -> None:
        """Let go who was not asked for long; when cancelled, everybody."""
        try:
            while True:
                await asyncio.sleep(_IDLE_SECONDS / 10)
                longest = time.monotonic() - _IDLE_SECONDS
                for key in [key for key, asked in self._asked_at.items() if asked < longest]:
                    if not self._clerks[key].waiting:
                        await self._let_go(key)
        finally:
            for key in list(self._clerks):
                await self._let_go(key)


_SOON = {"Retry-After": "2"}
