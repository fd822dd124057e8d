"""Exponential backoff with full jitter (Brooker, "Exponential Backoff And Jitter", 2015)."""

from __future__ import annotations

import random

from pock_agent.errors import AgentError, ServiceError
from pock_agent.settings import Settings


def delay(settings: Settings, failures: int, error: AgentError | None = None) -> float:
    """Seconds to wait after the given number of failures in a row (from 1), never less than a `Retry-After`."""
    ceiling = min(settings.backoff_cap_seconds, settings.backoff_base_seconds * 2.0 ** min(failures - 1, 16))
    jitter = random.uniform(0, ceiling)
    if isinstance(error, ServiceError) and error.retry_after is not None:
        return error.retry_after + jitter
    return jitter
