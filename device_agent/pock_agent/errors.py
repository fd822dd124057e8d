"""The agent's errors and the service's failure codes. Each message says what was wrong, where, and what to do."""

from __future__ import annotations

import errno
from enum import IntEnum


class FailureCode(IntEnum):
    """Numbers of `docs/reference/api.md` that this agent reports."""

    SERVICE = 1000
    CRASHED = 2001
    DISK_FULL = 2002
    OUT_OF_MEMORY = 2003
    VERIFICATION = 2004
    BAD_RECIPE = 3003
    TIMEOUT = 10001
    DEVICE_MEMORY = 10002
    BAD_ARGUMENT = 10003
    BAD_DATA = 10004
    CANCELLED = 10005


class ServiceCode(IntEnum):
    """Failure codes in the service's answers that decide what the agent does next."""

    NOT_FOUND = 1005
    DIGEST_MISMATCH = 1011
    SIGNATURE_INVALID = 1018
    QUARANTINED = 1019
    REVOKED = 1020
    LEASE_LOST = 1021
    SESSION_STALE = 1025


class AgentError(Exception):
    """Anything the agent says to a person in one sentence."""


class Unreachable(AgentError):
    """The service did not answer, or the connection broke. Worth another try."""


class ServiceError(AgentError):
    """An error status came back, from the service or from something before it, such as a proxy.

    Attributes: `status` (HTTP), `failure_code` (0 when the answer names none), `retry_after` in seconds or None, `date`
    (the service's clock in seconds since the epoch, or None).

    A bare status decides nothing: whoever stands between the agent and the service may have sent it. What ends a job or
    the agent is a failure code.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        failure_code: int = 0,
        retry_after: float | None = None,
        date: float | None = None,
    ) -> None:
        super().__init__(f"the service answered {status}: {detail}")
        self.status = status
        self.detail = detail
        self.failure_code = failure_code
        self.retry_after = retry_after
        self.date = date

    @property
    def transient(self) -> bool:
        """Whether the same request may succeed later; every other answer is final."""
        return self.failure_code == 0 or self.status >= 500 or self.status in (408, 425, 429)

    @property
    def takes_nothing(self) -> bool:
        """Whether the service takes nothing at all for now: there is no session as clocks differ, there were too many
        requests, or its database, or it itself, is away."""
        return self.status in (401, 425, 429, 502, 503, 504)

    @property
    def expels(self) -> bool:
        """Whether the service no longer accepts this device."""
        return self.failure_code in (ServiceCode.SIGNATURE_INVALID, ServiceCode.QUARANTINED, ServiceCode.REVOKED)

    @property
    def takes_the_run(self) -> bool:
        """Whether the run in hand is not, or no longer, this device's."""
        return self.failure_code in (ServiceCode.NOT_FOUND, ServiceCode.LEASE_LOST)


class NotWelcome(AgentError):
    """The service no longer accepts this device (revoked, or quarantined as a suspected clone). The agent stops."""


class Refused(AgentError):
    """Work that failed verification. `run_id` and `fence` are set only where the signature vouches for them. With
    `for_now` nothing is wrong with the work but the time: it can be done once the clocks agree."""

    def __init__(self, reason: str, run_id: str | None = None, fence: int | None = None, for_now: bool = False) -> None:
        super().__init__(reason)
        self.run_id = run_id
        self.fence = fence
        self.for_now = for_now


class Untrusted(AgentError):
    """A trust document that is not believed; the message says why."""


class Away(AgentError):
    """The machine that jobs run on cannot be reached now; the message says why. Worth another try."""


class LeaseLost(AgentError):
    """Another attempt owns the run now: stop at once and write nothing more about it."""


class Cancelled(AgentError):
    """The service asked to stop the run."""


class JobFailed(AgentError):
    """The job ends here; `code` and the message (at most 2000 characters) are what the service is told."""

    def __init__(self, code: FailureCode, detail: str) -> None:
        super().__init__(detail[:2000])
        self.code = code


def is_disk_full(error: OSError) -> bool:
    """Whether a write failed for want of room: the disk, a quota, or a file size limit."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
