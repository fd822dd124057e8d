"""The one word that reaches a running job from outside: stop, because the lease was lost or the run was cancelled."""

from __future__ import annotations

import threading

from pock_agent.errors import AgentError, Cancelled, LeaseLost


class JobControl:
    """Set by the lease keeper, the heartbeat and the event stream; asked by everything that takes long."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._reason: AgentError | None = None
        self._lock = threading.Lock()

    def lose_lease(self, reason: str) -> None:
        """The run belongs to someone else now. Outweighs an earlier cancel: a lost run must not be written to."""
        self._set(LeaseLost(reason))

    def cancel(self, reason: str) -> None:
        """Stop the run and report it as cancelled."""
        self._set(Cancelled(reason))

    @property
    def lost(self) -> bool:
        """Whether the lease was lost."""
        return isinstance(self._reason, LeaseLost)

    def check(self) -> None:
        """Raise the reason to stop, if there is one."""
        if self._reason is not None:
            raise self._reason

    def wait(self, seconds: float) -> None:
        """Sleep, but no longer than until there is a reason to stop, and raise it then."""
        self._stop.wait(seconds)
        self.check()

    def _set(self, reason: AgentError) -> None:
        with self._lock:
            if self._reason is None or isinstance(reason, LeaseLost):
                self._reason = reason
        self._stop.set()
