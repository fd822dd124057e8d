"""The words that reach a running job from outside: stop, because the lease was lost or the run was cancelled; pause,
because a policy forbids work for now."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pock_agent.errors import AgentError, Cancelled, LeaseLost
from pock_agent.policy.verdict import ALLOWED, Verdict


class Paused(AgentError):
    """Policies forbid what the job is at; it goes on once they allow it."""


class JobControl:
    """Set by the lease keeper, the heartbeat and the event stream; asked by everything that takes long.

    `verdict` says whether policies allow work; a program that has to end for them gets `patience` seconds to do so.
    """

    def __init__(self, verdict: Callable[[], Verdict] = lambda: ALLOWED, patience: float = 120.0) -> None:
        self.verdict, self.patience = verdict, patience
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

    def check_policies(self) -> None:
        """Raise the reason to stop, if there is one, and Paused where policies forbid work."""
        self.check()
        verdict = self.verdict()
        if not verdict.allowed:
            raise Paused(verdict.reason)

    def wait(self, seconds: float) -> None:
        """Sleep, but no longer than until there is a reason to stop, and raise it then."""
        self._stop.wait(seconds)
        self.check()

    def _set(self, reason: AgentError) -> None:
        with self._lock:
            if self._reason is None or isinstance(reason, LeaseLost):
                self._reason = reason
        self._stop.set()
