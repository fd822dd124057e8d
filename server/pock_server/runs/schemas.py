"""Bodies of the run calls, for people and for agents."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal, Protocol

from pydantic import AfterValidator, BaseModel, Field, model_validator

from pock_server.builds.schemas import FailureOut
from pock_server.datasets.held_out import HeldShare
from pock_server.devices.schemas import RestIn, RestOut
from pock_server.http.fields import DIGEST, UUID, Digest, ExecutableLine, Id, Name, Report, check_json
from pock_server.http.pages import PageOut
from pock_server.longer_works.schemas import LongerWork
from pock_server.names.schemas import VersionOut
from pock_server.runs.failures import FailureClass
from pock_server.runs.reporting.schemas import RunReport

MAX_INT = 2**31 - 1
MAX_RETRIES = 10
"""Of one class of failure."""
MAX_EVENTS = 10_000
"""Of one report."""


class RunState(StrEnum):
    """Where a run stands."""

    WAITING = "waiting"
    QUEUED = "queued"
    LEASED = "leased"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Entry(StrEnum):
    """What the executable is asked to do."""

    TRAIN = "train"
    EVAL = "eval"
    BENCH = "bench"


class WeightsForm(StrEnum):
    """As what trained weights come back."""

    SAFETENSORS = "safetensors"
    """All of them."""
    DELTA = "delta"
    """What changed of the artifact's (docs/reference/weight-deltas.md); from agents of before, all of them."""


class After(BaseModel):
    """What a run waits for: it is queued when that has succeeded, and fails when that has not."""

    build_id: Id | None = None
    run_id: Id | None = Field(default=None, description="If that run is tried again, its next try is waited for.")

    @model_validator(mode="after")
    def _one(self) -> "After":
        if (self.build_id is None) == (self.run_id is None):
            raise ValueError("give either build_id or run_id")
        return self


def _no_dependency(retries: dict[FailureClass, int]) -> dict[FailureClass, int]:
    if retries.get(FailureClass.DEPENDENCY):
        raise ValueError("a run whose dependency failed is not tried again: ask for both again")
    return retries


Retries = Annotated[
    dict[FailureClass, Annotated[int, Field(ge=0, le=MAX_RETRIES)]],
    Field(max_length=len(FailureClass), description="How often to try again, by class of failure."),
    AfterValidator(_no_dependency),
]


class Data(Protocol):
    """What a run, or each run of a longer work, is done on."""

    dataset_id: str | None
    dataset_name: str | None
    eval_dataset_id: str | None
    eval_dataset_name: str | None
    entry: Entry
    held_out: HeldShare | None


def check_data(order: Data) -> None:
    """Raise ValueError unless each dataset is said in one way, all but benchmarks have one, and only a training holds
    out a share of it."""
    for one in ("dataset", "eval_dataset"):
        if getattr(order, f"{one}_id") is not None and getattr(order, f"{one}_name") is not None:
            raise ValueError(f"give either {one}_id or {one}_name")
    if order.dataset_id is None and order.dataset_name is None and order.entry is not Entry.BENCH:
        raise ValueError(f"dataset_id is missing; only a benchmark runs without one, this is {order.entry}")
    if order.held_out is not None and order.entry is not Entry.TRAIN:
        raise ValueError(f"held_out belongs to a training, and this is {order.entry}")


LocalName = Annotated[
    Name | None,
    Field(description="In place of the id: data that stays on the device, by the name it has there."),
]


class RunIn(BaseModel):
    """Work for a device."""

    build_id: Id
    device_id: Id
    dataset_id: Id | None = Field(default=None, description="A benchmark needs none: it then makes its inputs itself.")
    eval_dataset_id: Id | None = None
    dataset_name: LocalName = None
    eval_dataset_name: LocalName = None
    entry: Entry = Entry.TRAIN
    steps: int = Field(ge=1, le=10_000_000)
    threads: int | None = Field(default=None, ge=1, le=256, description="Default: those of the build.")
    seed: int = Field(default=0, ge=0, le=2**53)
    save_weights: bool = False
    profile: bool = Field(default=False, description="Time each kernel, too; steps take a little longer.")
    held_out: HeldShare | None = None
    weights_form: WeightsForm = Field(default=WeightsForm.SAFETENSORS, description="Of the weights that are saved.")
    weights_of: str | None = Field(
        default=None,
        pattern=f"{UUID}|{DIGEST}",
        description="Weights to begin with: those that this run trained, or the blob of this digest.",
    )
    deadline_seconds: int | None = Field(default=None, ge=1, le=604_800, description="Wall-clock limit of the run.")
    queue_deadline_seconds: int | None = Field(default=None, ge=1, le=2_592_000, description="Limit of the wait.")
    priority: int = Field(default=0, ge=-100, le=100, description="A device takes the highest first.")
    after: After | None = Field(default=None, description="What to wait for; a build may be the run's own.")
    retries: Retries | None = Field(default=None, description="Default: transient ones 3 times, no others.")
    retry_delay_seconds: float = Field(
        default=30, ge=0, le=86_400, description="Before the first retry; each further one waits twice as long."
    )

    @model_validator(mode="after")
    def _has_data(self) -> "RunIn":
        check_data(self)
        if self.profile and self.entry is Entry.EVAL:
            raise ValueError("profile belongs to a training or a benchmark, and this is eval")
        return self


class PausedIn(RestIn):
    """A policy forbids the device to go on with a run for now."""


class PausedOut(RestOut):
    """Why a run does not go on for now, since when and, where that is known, until when."""


class RunProgressOut(BaseModel):
    """How far a run is."""

    step: int
    steps: int
    loss: float | None


class RunOut(BaseModel):
    """A run."""

    id: Id
    build_id: Id
    device_id: Id
    device_name: str
    target: str
    dataset_id: Id | None
    eval_dataset_id: Id | None
    model: VersionOut
    recipe: VersionOut | None = Field(description="Null for a recipe without a name.")
    build: VersionOut
    dataset: VersionOut | None
    eval_dataset: VersionOut | None
    entry: Entry
    steps: int
    threads: int
    seed: int
    save_weights: bool
    profile: bool = Field(default=False, description="Whether each kernel is timed: `report.train.kernels`.")
    held_out: HeldShare | None = None
    initial_weights_digest: Digest | None = Field(
        default=None, description="The weights that it began with, if not its artifact's."
    )
    part_of: Id | None = Field(description="The longer work that asked for this run.")
    longer_work: LongerWork | None = Field(default=None, description="What that is; null if it was deleted.")
    priority: int
    not_before: datetime | None
    after: After | None = Field(description="What it waits, or waited, for.")
    retries: dict[FailureClass, int] = Field(description="How often it may still be tried again.")
    retry: int = Field(description="0 for the first try.")
    retry_of: Id | None = Field(description="The run that failed, which this one is the next try of.")
    retried_by: Id | None = Field(description="The next try of this run.")
    state: RunState
    attempt: int
    queue_position: int | None = Field(description="1 is next; null unless queued.")
    progress: RunProgressOut | None
    paused: PausedOut | None = Field(description="Its device may not work for now; the state stays running.")
    report: RunReport | None
    weights_digest: Digest | None
    weights_form: WeightsForm | None = Field(default=None, description="As what the weights came; null without them.")
    weights_bytes: int | None = None
    full_weights_bytes: int | None = Field(default=None, description="Of all weights of its artifact, for comparison.")
    failure: FailureOut | None
    request_id: str | None = Field(description="Of the request that asked for it; logs are searched by it.")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class RunPage(PageOut[RunOut]):
    """Runs, newest first."""


class StepOut(BaseModel):
    """One training step."""

    step: int
    loss: float | None = Field(description="Null if it was not finite.")
    ms: float | None


class StepList(BaseModel):
    """Steps in order, at most 10000; ask again with `after` the last one."""

    items: list[StepOut]


class WorkEnvelope(BaseModel):
    """A signed piece of work."""

    payload: str = Field(description="Base64 of the JSON that was signed.")
    key_id: str
    signature: str = Field(description="Ed25519 over the raw payload bytes, base64.")


class LeaseIn(BaseModel):
    """A renewal."""

    fence: int = Field(ge=0, le=MAX_INT)
    paused: PausedIn | None = Field(default=None, description="The run does not go on for now; its time stands still.")


class LeaseOut(BaseModel):
    """How long the lease is valid, and whether to stop."""

    expires_at: datetime
    cancel: bool


class DeclineIn(BaseModel):
    """Why the device cannot begin at the moment."""

    fence: int = Field(ge=0, le=MAX_INT)
    reason: Annotated[str, AfterValidator(check_json)] = Field(min_length=1, max_length=4000)


class EventsIn(BaseModel):
    """Lines of the executable, in order; numbers start at 0 with every lease."""

    fence: int = Field(ge=0, le=MAX_INT)
    first_seq: int = Field(ge=0, le=MAX_INT - MAX_EVENTS)
    events: list[ExecutableLine] = Field(max_length=MAX_EVENTS)


class EventsOut(BaseModel):
    """The number of the next event."""

    next_seq: int


class FailureIn(BaseModel):
    """Why the run failed."""

    code: int = Field(ge=1, le=99_999)
    detail: Annotated[str, AfterValidator(check_json)] = Field(max_length=4000)


class ResultIn(BaseModel):
    """The end of a run."""

    fence: int = Field(ge=0, le=MAX_INT)
    state: Literal[RunState.SUCCEEDED, RunState.FAILED]
    report: Report | None = None
    weights_digest: Digest | None = None
    weights_form: WeightsForm = WeightsForm.SAFETENSORS
    failure: FailureIn | None = None


class ResultOut(BaseModel):
    """What became of the run."""

    state: RunState


class BlobStored(BaseModel):
    """A blob that the service has now."""

    digest: Digest
    size: int
