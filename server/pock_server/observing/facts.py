"""What happened to rows, told once the transaction that did it is committed: to the log, the metrics and the traces."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Moved:
    """A build, a run or a campaign changed its status; `over` says for the last time, `holder` has whose it is."""

    noun: str
    id: str
    origin: str
    to: str
    over: bool
    failure: Mapping[str, Any] | None
    attempt: int
    holder: Mapping[str, str]
    request_id: str | None
    traceparent: str | None
    created_at: datetime
    started_at: datetime | None
    at: datetime

    @property
    def started(self) -> bool:
        """Whether it had waited and was taken now."""
        return self.origin == "queued" and not self.over

    @property
    def taken_back(self) -> bool:
        """Whether it was in somebody's hands and waits again."""
        return self.to == "queued" and self.origin != "waiting"

    def seconds_since(self, moment: datetime) -> float:
        """From `moment` until this happened; clocks of several machines may disagree a little."""
        return max(0.0, (self.at - moment).total_seconds())


@dataclass(frozen=True)
class Stage:
    """One stage of a build; moments are seconds since the epoch."""

    name: str
    began: float
    ended: float


@dataclass(frozen=True)
class Counted:
    """Something that is only counted, under one label of the counter `name` of `metrics.py`; `detail` is logged."""

    name: str
    label: str
    detail: str | None = None


Fact = Moved | Counted
