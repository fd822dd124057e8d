"""Bodies of the run calls, for people and for agents."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from pock_server.builds.schemas import FailureOut
from pock_server.http.fields import Digest, ExecutableLine, Id, Report, check_json
from pock_server.http.pages import PageOut
from pock_server.names.schemas import VersionOut

MAX_INT = 2**31 - 1
MAX_EVENTS = 10_000
"""Of one report."""


class RunState(StrEnum):
    """Where a run stands."""

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


class RunIn(BaseModel):
    """Work for a device."""

    build_id: Id
    device_id: Id
    dataset_id: Id
    eval_dataset_id: Id | None = None
    entry: Entry = Entry.TRAIN
    steps: int = Field(ge=1, le=10_000_000)
    threads: int | None = Field(default=None, ge=1, le=256, description="Default: those of the build.")
    seed: int = Field(default=0, ge=0, le=2**53)
    save_weights: bool = False
    deadline_seconds: int | None = Field(default=None, ge=1, le=604_800, description="Wall-clock limit of the run.")
    queue_deadline_seconds: int | None = Field(default=None, ge=1, le=2_592_000, description="Limit of the wait.")


class RunProgressOut(BaseModel):
    """How far a run is."""

    step: int
    steps: int
    loss: float | None


class StepMs(BaseModel):
    """Time of a step in milliseconds."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    median: float | None = None
    p10: float | None = None
    p90: float | None = None
    samples: list[float] = []


class KernelMs(BaseModel):
    """Time of one kernel."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    name: str | None = None
    kernel: str | None = None
    ms: float | None = None
    flops: float | None = None
    bytes: float | None = None


class EvaluationOut(BaseModel):
    """An evaluation during training."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    step: int
    epoch: int
    samples: int
    loss: float | None = None
    accuracy: float | None = None
    perplexity: float | None = None
    best: bool = False


class StabilityOut(BaseModel):
    """Whether a median can be trusted: its 95 % confidence interval is within a share of it."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    stable: bool = False
    relative_interval: float | None = None
    samples: int = 0
    tries: int = 1


class EnergyOut(BaseModel):
    """What a training took, as far as the device measures it (docs/agent.md)."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    joules: float | None = None
    joules_per_step: float | None = None
    mean_watts: float | None = None
    source: str | None = None
    covers: str | None = Field(default=None, description="board or processor")


class ReportOut(BaseModel):
    """The executable's report (docs/reference/binary.md), with what the agent adds to it."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    entry: str | None = None
    target: str | None = None
    threads: int | None = None
    steps: int | None = None
    loss: list[float] | None = None
    step_ms: StepMs | None = None
    cold_start_ms: float | None = None
    peak_rss_bytes: int | None = None
    arena_bytes: int | None = None
    param_bytes: int | None = None
    state_bytes: int | None = None
    predicted_peak_bytes: int | None = None
    samples: int | None = None
    accuracy: float | None = None
    perplexity: float | None = None
    evaluations: list[EvaluationOut] | None = None
    best_step: int | None = None
    best_loss: float | None = None
    stopped_early: bool | None = None
    kernels: list[KernelMs] | None = None
    stability: StabilityOut | None = None
    energy: EnergyOut | None = None


class RunReport(BaseModel):
    """Everything the agent measured; `health` is the device's before, during and after."""

    model_config = ConfigDict(extra="allow")

    train: ReportOut | None = None
    eval_before: ReportOut | None = None
    eval_after: ReportOut | None = None
    health: dict[str, Any] = {}


class RunOut(BaseModel):
    """A run."""

    id: Id
    build_id: Id
    device_id: Id
    device_name: str
    target: str
    dataset_id: Id
    eval_dataset_id: Id | None
    model: VersionOut
    recipe: VersionOut | None = Field(description="Null for a recipe without a name.")
    build: VersionOut
    dataset: VersionOut
    eval_dataset: VersionOut | None
    entry: Entry
    steps: int
    threads: int
    seed: int
    save_weights: bool
    state: RunState
    attempt: int
    queue_position: int | None = Field(description="1 is next; null unless queued.")
    progress: RunProgressOut | None
    report: RunReport | None
    weights_digest: Digest | None
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
    failure: FailureIn | None = None


class ResultOut(BaseModel):
    """What became of the run."""

    state: RunState


class BlobStored(BaseModel):
    """A blob that the service has now."""

    digest: Digest
    size: int
