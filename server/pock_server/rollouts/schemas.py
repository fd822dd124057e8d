"""Bodies of the calls about rollouts, and of those that devices make about an offer."""

from datetime import datetime
from itertools import pairwise
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from pock_server.devices.schemas import RestOut
from pock_server.devices.selectors.grammar import MAX_CHARACTERS
from pock_server.http.fields import Base64Signature, Id
from pock_server.http.pages import PageOut
from pock_server.rollouts.states import Report, RolloutState, UpdateState

_MAX_STAGES = 20


def _ascending(stages: list[int]) -> list[int]:
    if stages[-1] != 100 or any(low >= high for low, high in pairwise(stages)):
        raise ValueError("has to grow, and to end with 100")
    return stages


Percent = Annotated[int, Field(ge=1, le=100)]
Stages = Annotated[list[Percent], Field(min_length=1, max_length=_MAX_STAGES), AfterValidator(_ascending)]


class RolloutIn(BaseModel):
    """A release to bring to devices."""

    release_id: Id
    on: str = Field(max_length=MAX_CHARACTERS, description="Selector of devices, as `GET /devices?on=` takes it.")
    canary: int = Field(default=1, ge=0, le=1000, description="Devices that go first.")
    stages: Stages = Field(default=[10, 50, 100], description="How far each stage goes, in percent of the devices.")
    healthy_seconds: int = Field(default=600, ge=1, le=86_400, description="How long a device has to last.")
    check_in_seconds: int = Field(default=300, ge=5, le=3600, description="How soon a new version has to be heard of.")
    max_failed: int = Field(default=0, ge=0, le=100_000, description="With more failed devices it stops.")


class RolloutOut(BaseModel):
    """A rollout."""

    id: Id
    state: RolloutState
    release_id: Id
    version: str
    on: str
    canary: int
    stages: list[int]
    stage: int = Field(description="0: the canary; N: the Nth of the stages.")
    healthy_seconds: int
    check_in_seconds: int
    max_failed: int
    reason: str = Field(description="Why it stopped; else empty.")
    devices: dict[UpdateState, int] = Field(description="How many are in each state.")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class RolloutPage(PageOut[RolloutOut]):
    """Rollouts, newest first."""


class RolloutDeviceOut(BaseModel):
    """A device of a rollout."""

    device_id: Id
    device_name: str
    stage: int = Field(description="That it belongs to; -1: none, as it cannot take part.")
    state: UpdateState
    detail: str = Field(description="What the device says of it.")
    version_before: str | None
    checked_in_at: datetime | None = Field(description="When the release last told that it runs.")
    changed_at: datetime
    resting: RestOut | None = Field(description="Why a device that is offered something does not ask for it now.")


class RolloutDevicePage(PageOut[RolloutDeviceOut]):
    """Devices of a rollout."""


class UpdateOffer(BaseModel):
    """A release offered to one device; the signature is over `pock-agent-offer\\n` and the payload's bytes."""

    payload: str
    key_id: str
    signature: Base64Signature


_Text = Annotated[str, StringConstraints(max_length=500)]


class UpdateReport(BaseModel):
    """How it goes with an offer."""

    rollout_id: Id
    state: Report
    version: str = Field(max_length=20, description="That tells this.")
    detail: _Text = ""


class UpdateNoted(BaseModel):
    """What the service makes of it."""

    state: UpdateState
