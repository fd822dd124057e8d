"""Wakes waiting requests of this process when something changed: a doorbell, never the truth (that is the database).

A listener must look at the database after it has started to listen and after every ring or time-out, so a lost ring
costs one time-out and nothing else. `pock_server.db.bells` carries rings between the processes on one PostgreSQL.
"""

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

DUTIES_TOPIC = "duties"
"""Topic: work of several parts may have something to do (`pock_server.runner.duties`)."""
SELDOM_SECONDS = 20.0
"""How long a ring that was lost costs a listener whom all rings should reach."""


class Bell:
    """Rings once for any number of `ring` calls since the last wait."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Wake the listener; safe from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, timeout: float) -> bool:
        """Wait for a ring for at most `timeout` seconds; says whether it rang."""
        try:
            async with asyncio.timeout(timeout):  # `wait_for` can swallow a cancellation that comes with the ring
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


class Hub:
    """Topics are plain words: `builds`, `duties`, `build:ID`, `run:ID`, `device:ID`."""

    def __init__(self, carried: bool = False) -> None:
        """`carried`: the rings of other processes arrive here, too."""
        self.name = secrets.token_hex(8)
        self._bells: dict[str, set[Bell]] = defaultdict(set)
        self._carried = carried
        self.closing = False

    def patience(self, seconds: float) -> float:
        """How long to wait for a ring before looking anyway: `seconds` where another process may have changed something
        without ringing here, seldom where all rings arrive."""
        return max(seconds, SELDOM_SECONDS) if self._carried else seconds

    def ring(self, topic: str) -> None:
        """Ring everyone who listens to `topic`; safe from any thread."""
        for bell in tuple(self._bells.get(topic, ())):
            bell.ring()

    @contextmanager
    def listen(self, *topics: str) -> Iterator[Bell]:
        """A bell that rings for any of the topics while the block runs; call from the event loop."""
        bell = Bell()
        for topic in topics:
            self._bells[topic].add(bell)
        try:
            yield bell
        finally:
            for topic in set(topics):
                self._bells[topic].discard(bell)
                if not self._bells[topic]:
                    del self._bells[topic]

    def ring_all(self) -> None:
        """Ring everyone."""
        for topic in tuple(self._bells):
            self.ring(topic)

    def close(self) -> None:
        """Wake everyone for the last time, so that streams end when the server stops."""
        self.closing = True
        self.ring_all()
