"""Bodies of the call about what a workspace uses."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, Field

from pock_server.http.fields import Id


class QuotaOut(BaseModel):
    """One thing that is counted."""

    quota: str = Field(description="As `pock-server workspaces set-quota` calls it.")
    noun: str
    used: int
    limit: int
    own: bool = Field(description="Whether the workspace has a limit of its own, in place of the service's.")
    way_out: str = Field(description="What helps when there is too much of it.")


class StorageOut(BaseModel):
    """What is stored; bytes that other workspaces have as well count here, too."""

    blobs: int
    stored_bytes: int
    announced_bytes: int = Field(
        description="Of uploads that are not complete: they take their room from the beginning."
    )
    damaged_blobs: int = Field(description="Missing in the store, or not what they were.")


class JobKind(StrEnum):
    """What waits and works."""

    BUILD = "build"
    SEARCH = "search"
    TRIALS = "trials"
    """Programs that try kernels, for the tuning database."""
    RUN = "run"


class QueueOut(BaseModel):
    """The workspace's jobs of one kind that are not over."""

    kind: JobKind
    waiting: int
    working: int
    silent: int = Field(description="Of those at work: whose worker or device was not heard in time.")
    oldest_at: datetime | None = Field(description="Since when the oldest waits.")


class WorkOut(BaseModel):
    """A build worker's present work, in this workspace."""

    id: Id = Field(description="Of the build; of the search, where it is one.")
    kind: JobKind
    name: str
    started_at: datetime | None
    silent: bool = Field(description="Whether the worker was not heard in time: the work goes to another.")


class UsageOut(BaseModel):
    """What the workspace has, may have, and waits for."""

    quotas: list[QuotaOut]
    storage: StorageOut
    queues: list[QueueOut]
    workers: list[WorkOut] = Field(description="The newest few.")
    runner: Literal["inprocess", "celery", "none"] = Field(
        description="Who builds: the service itself, workers by way of a broker, or nobody."
    )
    builds_at_once: int = Field(description="How many builds of this workspace are at work at most.")
