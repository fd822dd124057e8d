"""Bodies of the federation calls."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, Field, model_validator

from pock_server.aggregation.task import Rule
from pock_server.builds.schemas import FailureOut
from pock_server.devices.selectors.grammar import MAX_CHARACTERS
from pock_server.http.fields import DIGEST, UUID, Digest, Id, Name
from pock_server.http.pages import PageOut

MAX_DEVICES = 1000
"""Of a round."""
PLACEHOLDER = "{device}"

Positive = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]


class FederationState(StrEnum):
    """Where a federation stands."""

    WAITING = "waiting"
    """The next round begins as soon as enough devices are there."""
    TRAINING = "training"
    """The devices of a round train."""
    AGGREGATING = "aggregating"
    """What they sent becomes the weights of the next round."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class RoundMemberState(StrEnum):
    """What became of a device in a round."""

    TRAINING = "training"
    """It has not answered yet."""
    ANSWERED = "answered"
    """Its weights are there."""
    ACCEPTED = "accepted"
    """They count."""
    REJECTED = "rejected"
    """They do not count; the reason says why."""
    FAILED = "failed"
    """Its run failed, or was cancelled."""
    LATE = "late"
    """It did not answer before the round ended."""


class FederationIn(BaseModel):
    """Training on many devices, round by round."""

    name: Name
    build_id: Id
    on: str = Field(min_length=1, max_length=MAX_CHARACTERS, description="Devices, by a selector.")
    rounds: int = Field(ge=1, le=10_000)
    devices_per_round: int = Field(ge=1, le=MAX_DEVICES)
    minimum: int = Field(ge=1, le=MAX_DEVICES, description="A round counts if so many devices answer and are accepted.")
    steps: int | None = Field(default=None, ge=1, le=10_000_000, description="Of each device in a round.")
    epochs: float | None = Field(default=None, gt=0, le=1000, allow_inf_nan=False, description="Instead of steps.")
    dataset: Name | None = Field(
        default=None, description="A dataset's name, its newest version; `{device}` stands for the device's name."
    )
    datasets: dict[Id, Id] | None = Field(
        default=None, min_length=1, max_length=10_000, description="Instead: device to dataset. Others take no part."
    )
    aggregation: Rule = Rule.FEDAVG
    server_learning_rate: Positive = 1.0
    clip_norm: Positive | None = Field(default=None, description="Updates that are longer are made this long.")
    noise_multiplier: Positive | None = Field(default=None, description="Deviation of the noise, in clip norms.")
    delta: float = Field(default=1e-5, gt=0, lt=1, allow_inf_nan=False, description="Of the privacy that is stated.")
    norm_bound: float | None = Field(
        default=10.0, gt=1, le=1e9, allow_inf_nan=False, description="Longest update, in medians of the round's."
    )
    round_deadline_seconds: int = Field(default=3600, ge=1, le=604_800, description="Of its wait and of its training.")
    seed: int = Field(default=0, ge=0, le=2**53, description="Of the choice of devices and of their training.")
    threads: int | None = Field(default=None, ge=1, le=256, description="Default: those of the build.")
    priority: int = Field(default=0, ge=-100, le=100)
    weights_of: str | None = Field(
        default=None, pattern=f"{UUID}|{DIGEST}", description="Begin with what a run trained, or a digest's weights."
    )

    @model_validator(mode="after")
    def _agrees(self) -> "FederationIn":
        if self.minimum > self.devices_per_round:
            raise ValueError("minimum is above devices_per_round")
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give either steps or epochs")
        if (self.dataset is None) == (self.datasets is None):
            raise ValueError("give either dataset or datasets")
        if self.noise_multiplier is not None and (self.clip_norm is None or self.aggregation is Rule.MEDIAN):
            raise ValueError("noise_multiplier needs clip_norm, and an aggregation that is a mean")
        return self


class FederationOut(BaseModel):
    """A federation."""

    id: Id
    name: str
    build_id: Id
    on: str
    rounds: int
    devices_per_round: int
    minimum: int
    aggregation: Rule
    state: FederationState
    round: int = Field(description="The one that it is at, or has ended with; 1 is the first.")
    ends_at: datetime | None = Field(description="When the present round ends, or its wait for devices.")
    weights_digest: Digest | None = Field(description="The newest weights, a delta of the build's; null before any.")
    weights_bytes: int | None
    full_weights_bytes: int | None = Field(description="Of all weights of the artifact.")
    up_bytes: int = Field(description="That devices sent.")
    down_bytes: int = Field(description="Of weights that devices fetched; the artifact, once for each, is left out.")
    full_bytes: int = Field(description="What both would be if all weights went both ways.")
    rejected: int = Field(description="Contributions that did not count.")
    epsilon: float | None = Field(description="Privacy spent so far, with `delta`; null without noise.")
    delta: float
    failure: FailureOut | None
    request_id: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class FederationPage(PageOut[FederationOut]):
    """Federations, newest first."""


class RoundMemberOut(BaseModel):
    """A device in a round."""

    device_id: Id
    device_name: str
    run_id: Id
    samples: int
    state: RoundMemberState
    reason: str | None = None
    norm: float | None = Field(default=None, description="The length of its update.")
    clipped: bool = False
    part: float | None = Field(default=None, description="Of the mean; together 1.")


class RoundOut(BaseModel):
    """A round of a federation."""

    number: int
    members: list[RoundMemberOut]
    loss: float | None = Field(description="The mean of the devices' last losses.")
    step_norm: float | None = Field(description="How far the weights went.")
    weights_digest: Digest | None = Field(description="After the round; there only while something uses it.")
    up_bytes: int
    down_bytes: int
    began_at: datetime
    finished_at: datetime | None


class RoundList(BaseModel):
    """Rounds in order, at most 100; ask again with `after` the last one."""

    items: list[RoundOut]
