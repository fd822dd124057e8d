"""When a request is sent again, and after how long: exponential backoff with full jitter, within a deadline.

A request that may be repeated (GET, HEAD, PUT, DELETE, a POST with its Idempotency-Key, one that cancels or pauses) is
sent again after any error that may pass. Any other only where nothing was done: no connection came about, or the
service itself says so.
"""

from __future__ import annotations

import random
import time

from pock_client.errors import PockClientError, ServiceError, Unreachable

TRANSIENT = frozenset({408, 425, 429, 502, 503, 504})
"""Statuses of HTTP that may pass."""
_REFUSED_AT_THE_DOOR = frozenset({425, 429, 503})
_FIRST_SECONDS = 0.25
_LONGEST_SECONDS = 10.0


class Attempts:
    """Of one request or transfer. `patience`: seconds from the first error, or the last progress, until it gives up."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._ends: float | None = None
        self._failed = 0

    def progressed(self) -> None:
        """Something arrived: the next error is the first one again."""
        self._ends = None
        self._failed = 0

    def pause(self, error: PockClientError, repeatable: bool) -> float:
        """Seconds to wait before the next attempt; raises `error` if there is none."""
        if not may_pass(error, repeatable):
            raise error
        now = time.monotonic()
        self._ends = now + self._patience if self._ends is None else self._ends
        longest = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2 ** min(self._failed, 10))
        self._failed += 1
        seconds = random.uniform(0, longest)
        if isinstance(error, ServiceError) and error.retry_after is not None:
            seconds = error.retry_after + random.uniform(0, min(1.0, error.retry_after))
        if now + seconds > self._ends:
            raise error
        return seconds


def may_pass(error: PockClientError, repeatable: bool) -> bool:
    """Whether the request that met `error` may be sent again and have another answer."""
    if isinstance(error, Unreachable):
        return error.may_pass and (repeatable or not error.sent)
    if not isinstance(error, ServiceError):
        return False
    if repeatable:
        return error.retryable
    return error.status in _REFUSED_AT_THE_DOOR or (error.retryable and error.failure_code is not None)
