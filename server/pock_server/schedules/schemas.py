"""Bodies of the calls about schedules."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field, StringConstraints, model_validator

from pock_server.benchmarks.schemas import BenchmarkIn
from pock_server.campaigns.schemas import CampaignIn
from pock_server.http.fields import Id, Name
from pock_server.http.pages import PageOut
from pock_server.schedules.times import is_timezone, next_time


class Outcome(StrEnum):
    """What became of a time that was due."""

    ASKED = "asked"
    """What is scheduled was asked for."""
    SKIPPED = "skipped"
    """What was asked for the last time is not over."""
    REFUSED = "refused"
    """It could not be asked for; a sentence says why."""


def _known(name: str) -> str:
    if not is_timezone(name):
        raise ValueError("is no time zone; it looks like Europe/Berlin or UTC")
    return name


def _cron(text: str) -> str:
    next_time(text, "UTC", datetime(2030, 1, 1, tzinfo=UTC))
    return text


Cron = Annotated[
    str,
    StringConstraints(min_length=9, max_length=100, pattern=r"^[\x20-\x7e]+$"),
    AfterValidator(_cron),
    Field(description="Five fields: minute, hour, day of month, month, day of week."),
]
Timezone = Annotated[
    str, StringConstraints(max_length=64), AfterValidator(_known), Field(description="Such as Europe/Berlin.")
]


class Scheduled(BaseModel):
    """What is asked for again and again."""

    campaign: CampaignIn | None = None
    benchmark: BenchmarkIn | None = None

    @model_validator(mode="after")
    def _one(self) -> "Scheduled":
        if (self.campaign is None) == (self.benchmark is None):
            raise ValueError("give either campaign or benchmark")
        return self


class ScheduleIn(BaseModel):
    """A schedule to keep."""

    name: Name
    cron: Cron
    timezone: Timezone = "UTC"
    what: Scheduled
    skip_if_running: bool = Field(default=True, description="Ask for nothing while the last one is not over.")
    enabled: bool = True


class ScheduleChange(BaseModel):
    """What is left out stays."""

    name: Name | None = None
    cron: Cron | None = None
    timezone: Timezone | None = None
    skip_if_running: bool | None = None
    enabled: bool | None = None


class TimeOut(BaseModel):
    """One time that a schedule was due."""

    id: Id
    due_at: datetime
    missed: int = Field(description="Times before that passed while the service was down; this one stands for them.")
    outcome: Outcome
    detail: str | None
    campaign_id: Id | None
    benchmark_id: Id | None
    created_at: datetime


class TimePage(PageOut[TimeOut]):
    """Times, newest first; those of long ago are forgotten."""


class ScheduleOut(BaseModel):
    """A schedule."""

    id: Id
    name: str
    cron: str
    timezone: str
    what: Scheduled
    skip_if_running: bool
    enabled: bool
    next_at: datetime | None = Field(description="Null while it is not enabled.")
    last: TimeOut | None = Field(description="The last time that it was due.")
    created_at: datetime


class SchedulePage(PageOut[ScheduleOut]):
    """Schedules, newest first."""
