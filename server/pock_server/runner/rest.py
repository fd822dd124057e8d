"""When the sweeper takes nothing for lost: leases seem to be over that are not, after the clock was set, or after a
database was away for so long that nobody could renew them. Whoever holds one gets the time to do it."""

import logging
import time

from pock_server.clock import JumpWatch
from pock_server.services import Services

_log = logging.getLogger(__name__)


class Rest:
    """Asked before each sweep."""

    def __init__(self, services: Services) -> None:
        settings = services.settings
        self._watch = JumpWatch(services.clock)
        self._seconds = max(settings.lease_seconds, settings.build_lease_seconds)
        # A renewal that came in time was at most a third of the lease ago when the database went away.
        self._bearable = min(settings.lease_seconds, settings.build_lease_seconds) / 2
        self._until = 0.0
        self._away_since: float | None = None

    def needed(self, answered: bool) -> bool:
        """Whether to leave everything as it is for now; `answered`: the database did, a moment ago."""
        now = time.monotonic()
        if jump := self._watch.jumped():
            self._begin(now, f"the clock jumped by {jump:+.0f} s")
        if not answered:
            self._away_since = now if self._away_since is None else self._away_since
            return True
        if self._away_since is not None and now - self._away_since > self._bearable:
            self._begin(now, f"the database was away for {now - self._away_since:.0f} s")
        self._away_since = None
        return now < self._until

    def _begin(self, now: float, why: str) -> None:
        self._until = now + self._seconds
        _log.warning("%s; nothing is taken for lost until leases are renewed", why)
