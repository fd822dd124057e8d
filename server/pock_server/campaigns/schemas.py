"""Bodies of the calls about campaigns."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, Field, model_validator

from pock_server.builds.schemas import FailureOut
from pock_server.datasets.held_out import HeldShare
from pock_server.devices.selectors.grammar import MAX_CHARACTERS
from pock_server.http.fields import Id, Name
from pock_server.http.pages import PageOut
from pock_server.runs.schemas import Entry, LocalName, Retries, check_data

MAX_CELLS = 5000
"""Of one campaign."""
_MONTH = 2_592_000


class CampaignState(StrEnum):
    """Where a campaign stands."""

    RUNNING = "running"
    """Its next runs are asked for as earlier ones end."""
    PAUSED = "paused"
    """No further runs are asked for; those that were go on."""
    STOPPING = "stopping"
    """It ended early; its last runs are being cancelled."""
    SUCCEEDED = "succeeded"
    """Every cell has its outcome, and one succeeded at least."""
    FAILED = "failed"
    """A rule or the deadline stopped it, or no cell succeeded."""
    CANCELLED = "cancelled"
    """A person ended it."""


class CellState(StrEnum):
    """Where one cell of a campaign stands: one build on one device with one seed."""

    PENDING = "pending"
    """Its run is still to be asked for."""
    RUNNING = "running"
    """Its run, or a next try of it, is not over."""
    SUCCEEDED = "succeeded"
    """Its run succeeded."""
    FAILED = "failed"
    """The last try of its run failed."""
    CANCELLED = "cancelled"
    """Its run was cancelled or deleted."""
    SKIPPED = "skipped"
    """It never ran: the campaign was stopped, its build failed, its device went away."""


class Canary(BaseModel):
    """Some devices go first: if a cell of theirs does not succeed, the campaign stops."""

    devices: int = Field(ge=1, le=100, description="So many devices, of as many targets as can be.")
    wait_seconds: int = Field(default=0, ge=0, le=_MONTH, description="From their success until the others begin.")


class StopRules(BaseModel):
    """When to give up: as soon as so many cells have failed."""

    failed: int | None = Field(default=None, ge=1, le=MAX_CELLS)
    failed_share: float | None = Field(default=None, gt=0, le=1, description="More than this part of all cells.")

    @model_validator(mode="after")
    def _some_rule(self) -> "StopRules":
        if self.failed is None and self.failed_share is None:
            raise ValueError("give failed or failed_share")
        return self


class CampaignIn(BaseModel):
    """A campaign to run: finished or unfinished builds, or the builds of a model by recipes for targets."""

    name: Name
    build_ids: list[Id] = Field(default=[], max_length=100)
    model_id: Id | None = None
    recipe_ids: list[Id] = Field(default=[], max_length=50)
    targets: list[Name] = Field(default=[], max_length=50)
    on: str = Field(max_length=MAX_CHARACTERS, description="A selector of devices.")
    device_ids: list[Id] = Field(default=[], max_length=1000, description="Only these of them. Default: all.")
    dataset_id: Id | None = None
    eval_dataset_id: Id | None = None
    dataset_name: LocalName = None
    eval_dataset_name: LocalName = None
    entry: Entry = Entry.TRAIN
    held_out: HeldShare | None = None
    steps: int = Field(ge=1, le=10_000_000)
    seeds: list[Annotated[int, Field(ge=0, le=2**53)]] = Field(default=[0], min_length=1, max_length=1000)
    threads: int | None = Field(default=None, ge=1, le=256, description="Default: those of each build.")
    priority: int = Field(default=0, ge=-100, le=100)
    parallelism: int | None = Field(default=None, ge=1, le=1000, description="Runs at once. Default: one a device.")
    per_device: int = Field(default=1, ge=1, le=100, description="Runs at once of one device.")
    canary: Canary | None = None
    stop: StopRules | None = None
    deadline_seconds: int | None = Field(default=None, ge=1, le=_MONTH, description="Of the whole campaign.")
    run_deadline_seconds: int | None = Field(default=None, ge=1, le=604_800, description="Of each run.")
    retries: Retries | None = Field(default=None, description="Of each run. Default: transient ones 3 times.")
    retry_delay_seconds: float = Field(default=30, ge=0, le=86_400)

    @model_validator(mode="after")
    def _fits_together(self) -> "CampaignIn":
        made = (self.model_id is not None, bool(self.recipe_ids), bool(self.targets))
        if (any(made) and self.build_ids) or (any(made) and not all(made)) or not (any(made) or self.build_ids):
            raise ValueError("give either build_ids, or model_id, recipe_ids and targets")
        check_data(self)
        for name in ("build_ids", "recipe_ids", "targets", "device_ids", "seeds"):
            if len(set(getattr(self, name))) != len(getattr(self, name)):
                raise ValueError(f"{name} has the same twice")
        return self


class CellCounts(BaseModel):
    """Cells of a campaign, by where they stand."""

    total: int
    pending: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    skipped: int


class CampaignOut(BaseModel):
    """A campaign."""

    id: Id
    name: str
    state: CampaignState
    order: CampaignIn = Field(description="What was asked for.")
    build_ids: list[Id] = Field(description="Its builds, those that were made for it and those that were there.")
    cells: CellCounts
    missing_targets: list[str] = Field(description="Targets of builds of which no device was chosen.")
    canary_ended_at: datetime | None = Field(description="When all cells of the canaries had succeeded.")
    schedule_id: Id | None = Field(description="The schedule that asked for it.")
    failure: FailureOut | None
    created_at: datetime
    ends_at: datetime | None = Field(description="Its deadline.")
    finished_at: datetime | None


class CampaignPage(PageOut[CampaignOut]):
    """Campaigns, newest first."""


class CellOut(BaseModel):
    """One cell: a build on a device with a seed, and what became of it."""

    number: int = Field(description="From 0, in the order in which they are begun.")
    build_id: Id
    device_id: Id
    device_name: str
    target: str
    seed: int
    canary: bool
    state: CellState
    run_id: Id | None = Field(description="Its run, or the last try of it.")
    failure: FailureOut | None
    finished_at: datetime | None


class CellList(BaseModel):
    """Cells in order; ask again with `after` the last number while there are some."""

    items: list[CellOut]


class ResultsBy(StrEnum):
    """What a row of results is about."""

    TARGET = "target"
    """A build on all devices of its target."""
    DEVICE = "device"
    """A build on one device."""


class ResultsFormat(StrEnum):
    """How results are written."""

    JSON = "json"
    """An object."""
    CSV = "csv"
    """A table for spreadsheets: RFC 4180, UTF-8."""


class Spread(BaseModel):
    """What several runs measured; of one, all three numbers are the same."""

    n: int
    median: float
    low: float = Field(description="A tenth of them are lower, interpolated.")
    high: float = Field(description="A tenth of them are higher.")


class CampaignResult(BaseModel):
    """What a build did on the devices of a target, or on one device, over all seeds."""

    build_id: Id
    build: str = Field(description="`NAME:vN`, or its id if it was deleted.")
    recipe: str | None = Field(description="`NAME:vN` of what is trained; null where the recipe has no name.")
    target: str
    device_id: Id | None
    device_name: str | None
    cells: CellCounts
    failures: dict[str, int] = Field(description="By class of failure, without skipped and cancelled ones.")
    step_ms: Spread | None = Field(description="Median time of a step in milliseconds.")
    peak_bytes: Spread | None = Field(description="Most resident memory.")
    joules_per_step: Spread | None = Field(description="Where devices measure it.")
    loss: Spread | None = Field(description="Of the last step.")
    accuracy: Spread | None = Field(description="Of the evaluation after training, or of an evaluation alone.")


class CampaignResults(BaseModel):
    """One row a build and target, or a build and device."""

    by: ResultsBy
    rows: list[CampaignResult]
