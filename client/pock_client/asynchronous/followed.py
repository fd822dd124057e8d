"""What builds, runs and the like have in common: they are followed by their events, and waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pock_client.asynchronous.named import Named
from pock_client.asynchronous.streams import Subject, follow, watch
from pock_client.calls import part
from pock_client.events import FINAL, Event
from pock_client.pausing import AsyncStream

T = TypeVar("T")


class Followed(Named[T]):
    """Things with events, which come to an end."""

    def events(self, ident: str, after: int = 0) -> AsyncStream[Event]:
        """What happens, from the beginning or after the event of that number, each event once, until it is over; cut
        connections and restarts of the service do not end it."""
        return follow(self._transport, self._subject(ident), after)

    async def ended(
        self, ident: str, on_event: Callable[[Event], object] | None = None, timeout: float | None = None
    ) -> T:
        """The one with this id once it is over, well or not. Raises WaitTimeout after `timeout` seconds."""
        await watch(self._transport, self._subject(ident), on_event, timeout)
        return await self.get(ident)

    def _subject(self, ident: str) -> Subject:
        async def is_over() -> bool:
            return getattr(await self.get(ident), "state", None) in FINAL

        return Subject(f"{self.path}/{part(ident)}", f"{self.words} {ident}", is_over)
