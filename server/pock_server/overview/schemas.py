"""Bodies of the overview."""

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, Field

from pock_server.builds.schemas import BuildState
from pock_server.devices.states import DeviceState
from pock_server.http.fields import Id
from pock_server.runs.schemas import RunState


class ConcernKind(StrEnum):
    """Why something needs somebody; in the order of urgency."""

    DEVICE_QUARANTINED = "device_quarantined"
    """Its key is in use twice."""
    ROLLOUT_STOPPED = "rollout_stopped"
    """Too many devices failed to update."""
    RUN_FAILED = "run_failed"
    """In the last day, and was not tried again."""
    BUILD_FAILED = "build_failed"
    """In the last day."""
    REGRESSION = "regression"
    """A step became slower, in the last week."""
    DEVICE_THROTTLED = "device_throttled"
    """It is there, and says that it is slowed down."""
    RUN_THROTTLED = "run_throttled"
    """It ended well in the last day, but its device was slowed down meanwhile."""
    DEVICE_OFFLINE = "device_offline"
    """For more than an hour, though it was there in the last month."""


class ConcernedOut(BaseModel):
    """One thing that needs somebody."""

    id: Id
    name: str
    detail: str = Field(description="Empty where the concern says it all.")
    at: datetime | None


class ConcernOut(BaseModel):
    """All things that need somebody for one reason."""

    concern: ConcernKind
    count: int
    items: list[ConcernedOut] = Field(description="The newest few.")


class OverviewOut(BaseModel):
    """What goes on in the workspace."""

    models: int
    datasets: int
    devices: dict[DeviceState, int] = Field(description="States without devices are left out.")
    builds: dict[BuildState, int]
    runs: dict[RunState, int]
    concerns: list[ConcernOut] = Field(description="The most urgent first.")
