"""Types of the interface. Generated from web/openapi.json by `python -m client.generate`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, field

from pock_client.enumeration import OpenEnum


class About(Struct, frozen=True, kw_only=True):
    """About what a recipe takes. The parts in bytes sum to `predicted_peak_bytes`."""

    predicted_peak_bytes: int
    step_ms: float
    runtime_bytes: int
    param_bytes: int
    state_bytes: int
    const_bytes: int
    input_bytes: int
    arena_bytes: int
    trained_parameters: int


class ActorKind(OpenEnum):
    """How somebody came in."""

    api_key = "api_key"
    session = "session"
    device = "device"
    command_line = "command_line"
    service = "service"


class Aggregation(OpenEnum):
    """How what the devices trained becomes one step of the weights."""

    fedavg = "fedavg"
    fedadam = "fedadam"
    median = "median"


class Approximation(Struct, frozen=True, kw_only=True):
    """About what a recipe takes, once that can be told."""

    learned: float
    """The share of the schemes to learn from that is known."""
    takes: About | None
    """None before all is learned, and of recipes it tells nothing about."""


class ApproximationIn(Struct, frozen=True, kw_only=True):
    """A recipe and a device, of which it is asked about what training takes."""

    recipe: dict[str, Any] | str
    """An object, or its text in YAML."""
    target: str | UnsetType = UNSET
    threads: int | UnsetType | None = UNSET


class ArtifactTensor(Struct, frozen=True, kw_only=True):
    """A parameter or optimizer state."""

    name: str
    dtype: str
    shape: list[int]
    nbytes: int
    role: str
    trained: str
    channels: list[int] | int | None


class AuditChange(Struct, frozen=True, kw_only=True):
    """A field before and after."""

    before: Any = None
    after: Any = None


class AuditObject(Struct, frozen=True, kw_only=True):
    """What was changed; it may be gone by now."""

    kind: str
    id: str
    name: str


class BenchmarkState(OpenEnum):
    """Where a benchmark stands."""

    queued = "queued"
    running = "running"
    succeeded = "succeeded"
    failed = "failed"
    cancelled = "cancelled"


class BuildState(OpenEnum):
    """Where a build stands."""

    queued = "queued"
    running = "running"
    succeeded = "succeeded"
    failed = "failed"
    cancelled = "cancelled"


class CampaignState(OpenEnum):
    """Where a campaign stands."""

    running = "running"
    paused = "paused"
    stopping = "stopping"
    succeeded = "succeeded"
    failed = "failed"
    cancelled = "cancelled"


class Canary(Struct, frozen=True, kw_only=True):
    """Some devices go first: if a cell of theirs does not succeed, the campaign stops."""

    devices: int
    """So many devices, of as many targets as can be."""
    wait_seconds: int = 0
    """From their success until the others begin."""


class CellCounts(Struct, frozen=True, kw_only=True):
    """Cells of a campaign, by where they stand."""

    total: int
    pending: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    skipped: int


class CellState(OpenEnum):
    """Where one cell of a campaign stands: one build on one device with one seed."""

    pending = "pending"
    running = "running"
    succeeded = "succeeded"
    failed = "failed"
    cancelled = "cancelled"
    skipped = "skipped"


class Class(Struct, frozen=True, kw_only=True):
    """How often one label occurs."""

    label: int
    count: int


class ConcernKind(OpenEnum):
    """Why something needs somebody; in the order of urgency."""

    device_quarantined = "device_quarantined"
    rollout_stopped = "rollout_stopped"
    run_failed = "run_failed"
    build_failed = "build_failed"
    regression = "regression"
    device_throttled = "device_throttled"
    run_throttled = "run_throttled"
    device_offline = "device_offline"


class DeliveryState(OpenEnum):
    """Where a delivery stands."""

    pending = "pending"
    delivered = "delivered"
    failed = "failed"


class DeviceChange(Struct, frozen=True, kw_only=True):
    """What is to change about a device; what is left out stays."""

    name: str | UnsetType | None = UNSET
    pool: str | UnsetType | None = UNSET
    labels: dict[str, str | None] | UnsetType = UNSET
    """Those that are named change; null takes a label away."""


class DeviceSort(OpenEnum):
    """The order of a list of devices; of equal ones the newest comes first."""

    newest = "newest"
    name = "name"
    state = "state"
    target = "target"
    pool = "pool"
    temperature = "temperature"
    memory = "memory"
    agent = "agent"
    seen = "seen"


class DeviceState(OpenEnum):
    """What a person sees: the status, or for active devices what they are doing."""

    online = "online"
    offline = "offline"
    busy = "busy"
    quarantined = "quarantined"
    revoked = "revoked"


Digest: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
"""SHA-256, lower-case hexadecimal."""


class Energy(Struct, frozen=True, kw_only=True):
    """What a training took, as far as the device measures it (docs/agent.md)."""

    joules: float | None = None
    joules_per_step: float | None = None
    mean_watts: float | None = None
    source: str | None = None
    covers: str | None = None
    """board, processor or GPU"""


class EnrolmentTokenIn(Struct, frozen=True, kw_only=True):
    """An enrolment token to make."""

    name: str | UnsetType | None = UNSET
    """Name of the device; default: the one it gives itself."""
    pool: str | UnsetType = UNSET
    labels: dict[str, str] | UnsetType = UNSET
    """Of the device."""
    ttl_seconds: int | UnsetType = UNSET


class Entry(OpenEnum):
    """What the executable is asked to do."""

    train = "train"
    eval = "eval"
    bench = "bench"


class EstimateIn(Struct, frozen=True, kw_only=True):
    """A recipe and a device, of which it is asked what training takes."""

    recipe: dict[str, Any] | str
    """An object, or its text in YAML."""
    target: str | UnsetType = UNSET
    threads: int | UnsetType | None = UNSET
    memory_bytes: int | UnsetType | None = UNSET
    """What the process may take: forward nodes run twice where that helps."""


class Evaluation(Struct, frozen=True, kw_only=True):
    """An evaluation during training."""

    step: int
    epoch: int
    samples: int
    loss: float | None = None
    accuracy: float | None = None
    perplexity: float | None = None
    best: bool = False


class Event(OpenEnum):
    """What is told. A name keeps its meaning; others may come."""

    benchmark_finished = "benchmark.finished"
    regression_found = "regression.found"
    run_failed = "run.failed"
    campaign_finished = "campaign.finished"


class Failure(Struct, frozen=True, kw_only=True):
    """Why a build or run failed."""

    code: int
    """A failure code of docs/service.md."""
    detail: str
    """One sentence."""


class FailureClass(OpenEnum):
    """What kind of failure a code stands for (docs/service.md has the codes)."""

    transient = "transient"
    crashed = "crashed"
    disk_full = "disk_full"
    out_of_memory = "out_of_memory"
    verification = "verification"
    device_lost = "device_lost"
    dependency = "dependency"
    model = "model"
    timeout = "timeout"
    user = "user"
    other = "other"


Epochs: TypeAlias = Annotated[float, Meta(gt=0.0)]
"""Instead of steps."""
ClipNorm: TypeAlias = Annotated[float, Meta(gt=0.0)]
"""Updates that are longer are made this long."""
NoiseMultiplier: TypeAlias = Annotated[float, Meta(gt=0.0)]
"""Deviation of the noise, in clip norms."""
NormBound: TypeAlias = Annotated[float, Meta(gt=1.0)]
"""Longest update, in medians of the round's."""


class FederationState(OpenEnum):
    """Where a federation stands."""

    waiting = "waiting"
    training = "training"
    aggregating = "aggregating"
    succeeded = "succeeded"
    failed = "failed"
    cancelled = "cancelled"


class FieldError(Struct, frozen=True, kw_only=True):
    """One part of a request that did not validate."""

    where: str
    """Path of the part, e.g. `body.recipe.batch`."""
    message: str
    line: int | None = None
    """Of a recipe's text, from 1, as far as it can be told."""


class Flops(Struct, frozen=True, kw_only=True):
    """Floating point operations of one step."""

    forward: int | float | None = None
    backward: int | float | None = None


class Found(Struct, frozen=True, kw_only=True):
    """What a search found. Sizes and times are predicted; those of `full` are of training everything."""

    peak_bytes: int
    step_ms: float
    gap: float
    """The part of the bound that is missing: 0 for the best, if contributions add."""
    trained_parameters: int
    """Numbers that are trained."""
    accuracy: float | None
    """Of short trainings, where `confirm` asked for them."""
    full_peak_bytes: int | None
    full_step_ms: float | None
    full_accuracy: float | None
    joules: float | None = None
    """Of a step, where `watts` were given."""
    learning_rates: dict[str, float] | None = None
    """By group of parameters, where `lr_steps` asked for them."""


class GraphIn(Struct, frozen=True, kw_only=True):
    """Whose graph is wanted: the model's, or with a recipe that of its training step."""

    recipe: dict[str, Any] | str | UnsetType | None = UNSET
    """An object, or its text in YAML."""
    target: str | UnsetType = UNSET
    batch: int | UnsetType | None = UNSET
    """Without a recipe; None: the model's own."""


class Trained(OpenEnum):
    """What is trained of the parameters that it reads; None where it reads none."""

    all = "all"
    channels = "channels"
    frozen = "frozen"


class GraphNode(Struct, frozen=True, kw_only=True):
    """A node of a graph; edges name it by its place in the list."""

    name: str
    op: str
    module: str
    """Its layer; empty for what comes from none, such as the loss."""
    phase: str
    flops: int
    bytes: int
    """Of its results."""
    shape: list[int]
    trained: Trained | None
    """What is trained of the parameters that it reads; None where it reads none."""
    expected_us: float | None = None
    """Microseconds that the compiler's model expects of it alone on one core; None for a view."""


class Group(Struct, frozen=True, kw_only=True):
    """How many devices have one thing in common."""

    name: str
    count: int


class HeldOutReport(Struct, frozen=True, kw_only=True):
    """What the device held out: `samples` of the dataset's `of`."""

    share: float | None = None
    seed: int | None = None
    samples: int | None = None
    of: int | None = None
    by_class: bool | None = None


class HeldShare(Struct, frozen=True, kw_only=True):
    """A share of the dataset that is not trained on but evaluated during training, by the device itself."""

    share: Annotated[float, Meta(gt=0.0, lt=1.0)]
    """Of each class, give or take a sample."""
    seed: int = 0
    """Draws the samples; `seed` of the run does not."""
    every: int = 0
    """Steps between evaluations; 0: after each epoch."""
    patience: int = 0
    """End after so many evaluations without a better one, with the best weights; 0: after all steps."""


Id: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")]
"""UUIDv7."""


class JobKind(OpenEnum):
    """What waits and works."""

    build = "build"
    search = "search"
    trials = "trials"
    run = "run"


class Phase(OpenEnum):
    """The part of the step to which its node belongs, by the plan."""

    forward = "forward"
    backward = "backward"
    update = "update"


class KernelMs(Struct, frozen=True, kw_only=True):
    """Time of one kernel."""

    name: str | None = None
    kernel: str | None = None
    ms: float | None = None
    flops: float | None = None
    bytes: float | None = None
    phase: Phase | None = None
    """The part of the step to which its node belongs, by the plan."""


class Known(Struct, frozen=True, kw_only=True):
    """How much was known of a build's workloads."""

    workloads: int = 0
    hits: int = 0
    """Whose best candidate was known."""
    by_model: int = 0
    """Left to the compiler's model."""
    to_try: int = 0
    """Of those, the ones that devices can try."""
    known_by: dict[str, int] = field(default_factory=dict)
    """The hits by where they come from: fleet, import."""


class Labels(Struct, frozen=True, kw_only=True):
    """How often each label occurs."""

    tensor: str
    counted: int
    """Labels that were looked at; fewer than `of` in large tensors, evenly spread."""
    of: int
    distinct: int | None
    """How many differ; null where they are too many to be classes."""
    classes: list[Class]
    """The 1,000 most frequent at most, in the order of their labels."""


class LayerParameter(Struct, frozen=True, kw_only=True):
    """A parameter of a layer."""

    name: str
    shape: list[int]
    trained: str
    channels: int | None = None
    """Input channels that are trained, where not all are."""
    input_channels: int | None = None
    """How many there are; None: it has none."""


class LongerWorkKind(OpenEnum):
    """What asks for runs."""

    campaign = "campaign"
    federation = "federation"
    tuning = "tuning"
    benchmark = "benchmark"


class MachineDifference(Struct, frozen=True, kw_only=True):
    """A fact that two machines do not share."""

    fact: str
    this: Any
    """Null is unknown."""
    other: Any


class Model(Struct, frozen=True, kw_only=True):
    """A model."""

    id: Id
    name: str
    digest: Digest
    size: int
    """Bytes of the ONNX file."""
    external: dict[str, Digest]
    created_at: datetime
    version: int | None = None
    """Of its name; 1 is the first. 0 for seconds, while a service is upgraded."""
    tags: list[str] = field(default_factory=list)
    """In the order of their letters."""
    builds: int | None = None
    """Builds of it, in whatever state."""
    used_at: datetime | None = None
    """When the last of these builds was asked for."""


class ModelFit(Struct, frozen=True, kw_only=True):
    """Whether builds of one model could run on a dataset."""

    model_id: Id
    model_name: str
    model_version: int
    """Of its name; 1 is the first. 0 for seconds, while a service is upgraded."""
    build_id: Id
    fits: bool
    reason: str
    """What does not fit; empty where it does."""


class ModelIn(Struct, frozen=True, kw_only=True):
    """A model whose files were uploaded."""

    name: str
    digest: Digest
    external: dict[str, Digest] | UnsetType = UNSET
    """External data files, as the ONNX file names them."""


class ModelPage(Struct, frozen=True, kw_only=True):
    """Models, newest first."""

    items: list[Model]
    next_cursor: str | None
    """Null on the last page."""


class Named(Struct, frozen=True, kw_only=True):
    """Something with a name."""

    id: Id
    name: str


class Node(Struct, frozen=True, kw_only=True):
    """One kernel call of a program."""

    index: int
    name: str
    op: str
    kernel: str
    flops: int
    bytes: int
    phase: str


class OperatorUse(Struct, frozen=True, kw_only=True):
    """An operator of the model's file."""

    operator: str
    count: int
    status: str
    """`supported`, `folded`, `forward only` or `unsupported`."""


class Outcome(OpenEnum):
    """What became of a time that was due."""

    asked = "asked"
    skipped = "skipped"
    refused = "refused"


class Paused(Struct, frozen=True, kw_only=True):
    """Why a run does not go on for now, since when and, where that is known, until when."""

    reason: str
    since: datetime
    until: datetime | None


class Policy(Struct, frozen=True, kw_only=True):
    """When a device may work. Each rule that is set has to be met; what is left out sets nothing."""

    charging: bool = False
    """Only while the device is plugged in."""
    max_temperature_celsius: float | None = None
    """Only below it; a device that reached it has to be 5 degrees cooler."""
    hours: list[str] | None = None
    """Local hours of the device, such as "22:00-06:30"."""
    max_minutes_per_day: float | None = None
    max_joules_per_day: float | None = None
    metered: str = "allow"
    """On networks that cost by the byte."""
    unknown: str = "allow"
    """What a rule means on a device that cannot tell what the rule is about."""


class PoolPolicy(Struct, frozen=True, kw_only=True):
    """The policy of a pool."""

    pool: str
    policy: Policy
    version: str | None = None
    """Of these rules, for `expected`."""


class Port(Struct, frozen=True, kw_only=True):
    """An input or output of the step."""

    name: str
    dtype: str
    shape: list[int]


class Preview(Struct, frozen=True, kw_only=True):
    """Some samples of one tensor."""

    tensor: str
    dtype: str
    shape: list[int]
    offset: int
    """The first sample that is shown."""
    values: int
    """Numbers of a sample; a sample that lists fewer is cut."""
    samples: list[list[int | float | None]]
    """Each sample's numbers, the last dimension running fastest; null for what is not finite."""


class Problem(Struct, frozen=True, kw_only=True):
    """RFC 9457 problem details with PockEngine's extensions."""

    type: str
    """Identifies the failure: `urn:pock:failure:CODE`."""
    title: str
    status: int
    detail: str
    """One sentence: what was wrong and what to do."""
    failure_code: int
    retryable: bool
    """Whether the same request may succeed later."""
    request_id: str | None = None
    """By this the service's log is searched."""
    errors: list[FieldError] | None = None
    """The parts of the request that were wrong."""


class Progress(Struct, frozen=True, kw_only=True):
    """How far a build is."""

    stage: str
    done: int
    total: int
    fraction: float
    """Of this stage."""


class Queue(Struct, frozen=True, kw_only=True):
    """The workspace's jobs of one kind that are not over."""

    kind: JobKind
    waiting: int
    working: int
    silent: int
    """Of those at work: whose worker or device was not heard in time."""
    oldest_at: datetime | None
    """Since when the oldest waits."""


class Quota(Struct, frozen=True, kw_only=True):
    """One thing that is counted."""

    quota: str
    """As `pock-server workspaces set-quota` calls it."""
    noun: str
    used: int
    limit: int
    own: bool
    """Whether the workspace has a limit of its own, in place of the service's."""
    way_out: str
    """What helps when there is too much of it."""


class Reason(OpenEnum):
    """Why a benchmark is not stable."""

    few_repeats = "few_repeats"
    interval = "interval"
    throttled = "throttled"
    temperature = "temperature"
    frequency = "frequency"
    emulated = "emulated"


class Recipe(Struct, frozen=True, kw_only=True):
    """A recipe."""

    id: Id
    name: str
    version: int
    """Of its name; 1 is the first. 0 for seconds, while a service is upgraded."""
    tags: list[str]
    """In the order of their letters."""
    digest: Digest
    created_at: datetime
    text: str
    """As it was written."""
    recipe: dict[str, Any]
    """What the text says."""
    model_id: Id | None = None
    """The model that a search found it for; null if somebody wrote it."""
    search_id: Id | None = None
    """The search that found it, which may be deleted since."""


class RecipeBrief(Struct, frozen=True, kw_only=True):
    """A recipe as lists show it."""

    id: Id
    name: str
    version: int
    """Of its name; 1 is the first. 0 for seconds, while a service is upgraded."""
    tags: list[str]
    """In the order of their letters."""
    digest: Digest
    created_at: datetime
    model_id: Id | None = None
    """The model that a search found it for; null if somebody wrote it."""
    search_id: Id | None = None
    """The search that found it, which may be deleted since."""


class RecipeIn(Struct, frozen=True, kw_only=True):
    """A recipe to keep."""

    name: str
    text: str
    """YAML."""


class RecipePage(Struct, frozen=True, kw_only=True):
    """Recipes, newest first."""

    items: list[RecipeBrief]
    next_cursor: str | None
    """Null on the last page."""


class Regression(Struct, frozen=True, kw_only=True):
    """A step that became slower."""

    id: Id
    model_name: str
    recipe_name: str | None
    target: str
    device_kind: str
    threads: int
    since_id: Id
    found_id: Id
    build_name: str
    """What `since_id` measured."""
    build_version: int
    ratio: float
    """How many times as slow as before."""
    interval_low: float
    """95 % of the ratio."""
    interval_high: float
    p_value: float
    created_at: datetime


class RegressionPage(Struct, frozen=True, kw_only=True):
    """Regressions, newest first."""

    items: list[Regression]
    next_cursor: str | None
    """Null on the last page."""


class Repeat(Struct, frozen=True, kw_only=True):
    """One process: milliseconds of a step, and how the device was. Null is unknown."""

    median_ms: float
    p10_ms: float | None
    p90_ms: float | None
    started_at: str | None
    """By the device's clock."""
    temperature_before_c: float | None
    temperature_after_c: float | None
    frequency_mhz: float | None
    """The highest during the repeat."""
    throttled: bool | None


class Rest(Struct, frozen=True, kw_only=True):
    """Why a device does no work for now, since when and, where that is known, until when."""

    reason: str
    since: datetime
    until: datetime | None


class ResultsBy(OpenEnum):
    """What a row of results is about."""

    target = "target"
    device = "device"


class ResultsFormat(OpenEnum):
    """How results are written."""

    json = "json"
    csv = "csv"


class Role(OpenEnum):
    """What a member is to its workspace."""

    viewer = "viewer"
    developer = "developer"
    operator = "operator"
    admin = "admin"


class RolloutIn(Struct, frozen=True, kw_only=True):
    """A release to bring to devices."""

    release_id: Id
    on: str
    """Selector of devices, as `GET /devices?on=` takes it."""
    canary: int | UnsetType = UNSET
    """Devices that go first."""
    stages: list[int] | UnsetType = UNSET
    """How far each stage goes, in percent of the devices."""
    healthy_seconds: int | UnsetType = UNSET
    """How long a device has to last."""
    check_in_seconds: int | UnsetType = UNSET
    """How soon a new version has to be heard of."""
    max_failed: int | UnsetType = UNSET
    """With more failed devices it stops."""


class RolloutState(OpenEnum):
    """How a rollout stands."""

    running = "running"
    paused = "paused"
    stopped = "stopped"
    succeeded = "succeeded"
    cancelled = "cancelled"
    reverting = "reverting"
    reverted = "reverted"


class RoundMemberState(OpenEnum):
    """What became of a device in a round."""

    training = "training"
    answered = "answered"
    accepted = "accepted"
    rejected = "rejected"
    failed = "failed"
    late = "late"


class RunProgress(Struct, frozen=True, kw_only=True):
    """How far a run is."""

    step: int
    steps: int
    loss: float | None


class RunState(OpenEnum):
    """Where a run stands."""

    waiting = "waiting"
    queued = "queued"
    leased = "leased"
    running = "running"
    succeeded = "succeeded"
    failed = "failed"
    cancelled = "cancelled"


class ScheduleChange(Struct, frozen=True, kw_only=True):
    """What is left out stays."""

    name: str | UnsetType | None = UNSET
    cron: str | UnsetType | None = UNSET
    timezone: str | UnsetType | None = UNSET
    skip_if_running: bool | UnsetType | None = UNSET
    enabled: bool | UnsetType | None = UNSET


class Scope(OpenEnum):
    """What an API key may do."""

    read = "read"
    models_write = "models:write"
    builds_write = "builds:write"
    runs_write = "runs:write"
    devices_admin = "devices:admin"
    keys_admin = "keys:admin"
    audit_read = "audit:read"


class SearchChannels(OpenEnum):
    """By what the input channels are chosen that are trained of a weight."""

    activation = "activation"
    fisher = "fisher"
    gradient = "gradient"
    magnitude = "magnitude"


StepMs1: TypeAlias = Annotated[float, Meta(gt=0.0)]
"""What a step may take, as predicted."""
Joules: TypeAlias = Annotated[float, Meta(gt=0.0)]
"""What a step may take; needs `watts`."""
Watts: TypeAlias = Annotated[float, Meta(gt=0.0)]
"""What the target draws while it trains: a run's `mean_watts`."""


class SearchMethod(OpenEnum):
    """How it is found what each parameter brings."""

    fisher = "fisher"
    measured = "measured"
    gradient = "gradient"


class SearchPreference(OpenEnum):
    """Which scheme of those within the limits."""

    accuracy = "accuracy"
    memory = "memory"
    time = "time"
    balanced = "balanced"


class Slot(Struct, frozen=True, kw_only=True):
    """A value's place in the arena and its life, as inclusive node indices."""

    value: str
    offset: int
    nbytes: int
    first: int
    last: int
    kind: str


class Sort(OpenEnum):
    """The order of a list."""

    newest = "newest"
    name = "name"
    largest = "largest"


class Source(OpenEnum):
    """Where an entry comes from."""

    fleet = "fleet"
    import_ = "import"


class Spread(Struct, frozen=True, kw_only=True):
    """What several runs measured; of one, all three numbers are the same."""

    n: int
    median: float
    low: float
    """A tenth of them are lower, interpolated."""
    high: float
    """A tenth of them are higher."""


class Stability(Struct, frozen=True, kw_only=True):
    """Whether a median can be trusted: its 95 % confidence interval is within a share of it."""

    stable: bool = False
    relative_interval: float | None = None
    samples: int = 0
    tries: int = 1


class Step(Struct, frozen=True, kw_only=True):
    """One training step."""

    step: int
    loss: float | None
    """Null if it was not finite."""
    ms: float | None


class StepList(Struct, frozen=True, kw_only=True):
    """Steps in order, at most 10000; ask again with `after` the last one."""

    items: list[Step]


class StepMs(Struct, frozen=True, kw_only=True):
    """Time of a step in milliseconds."""

    median: float | None = None
    p10: float | None = None
    p90: float | None = None
    samples: list[float] = field(default_factory=list)


FailedShare: TypeAlias = Annotated[float, Meta(gt=0.0)]
"""More than this part of all cells."""


class StopRules(Struct, frozen=True, kw_only=True):
    """When to give up: as soon as so many cells have failed."""

    failed: int | None = None
    failed_share: FailedShare | None = None
    """More than this part of all cells."""


class Storage(Struct, frozen=True, kw_only=True):
    """What is stored; bytes that other workspaces have as well count here, too."""

    blobs: int
    stored_bytes: int
    announced_bytes: int
    """Of uploads that are not complete: they take their room from the beginning."""
    damaged_blobs: int
    """Missing in the store, or not what they were."""


class Summary(Struct, frozen=True, kw_only=True):
    """What `pock compile --json` prints; the compiler may add fields."""

    arena_bytes: int | None = None
    lower_bound_bytes: int | None = None
    param_bytes: int | None = None
    state_bytes: int | None = None
    const_bytes: int | None = None
    input_bytes: int | None = None
    predicted_peak_bytes: int | None = None
    nodes_forward: int | None = None
    nodes_backward_dense: int | None = None
    nodes_backward: int | None = None
    kernels: int | None = None
    compile_seconds: float | None = None
    cache_hits: int | None = None
    flops: Flops | None = None
    trained_parameters: int | None = None
    tuned: str | None = None
    tuning: Known | None = None


class Target(Struct, frozen=True, kw_only=True):
    """A device type the compiler builds for; further fields are those of its description file."""

    name: str
    description: str
    triple: str


class TargetFit(Struct, frozen=True, kw_only=True):
    """Whether a step fits a device."""

    predicted_peak_bytes: int
    memory: str
    memory_bytes: int
    ram_bytes: int
    fits: bool
    """Whether a quarter of the memory is left to the system."""


class TargetList(Struct, frozen=True, kw_only=True):
    """All targets."""

    items: list[Target]


class Tensor(Struct, frozen=True, kw_only=True):
    """One tensor of a dataset."""

    name: str
    dtype: str
    """`f32 f16 bf16 f64 i8 i16 i32 i64 u8 ... bool`"""
    shape: list[int]
    """The first dimension counts samples."""


class TensorStatistics(Struct, frozen=True, kw_only=True):
    """The numbers of one tensor; least, largest and mean of those that are finite."""

    tensor: str
    counted: int
    """Numbers that were looked at; fewer than `of` in large tensors, evenly spread."""
    of: int
    min: float | None
    max: float | None
    mean: float | None
    nan: int
    infinite: int


class Time(Struct, frozen=True, kw_only=True):
    """One time that a schedule was due."""

    id: Id
    due_at: datetime
    missed: int
    """Times before that passed while the service was down; this one stands for them."""
    outcome: Outcome
    detail: str | None
    campaign_id: Id | None
    benchmark_id: Id | None
    created_at: datetime


class TimePage(Struct, frozen=True, kw_only=True):
    """Times, newest first; those of long ago are forgotten."""

    items: list[Time]
    next_cursor: str | None
    """Null on the last page."""


class TrustSignature(Struct, frozen=True, kw_only=True):
    """One root key's signature over the document's type, a line end (`pock-trust\\n`) and the payload's bytes."""

    key_id: str
    """First 16 hexadecimal digits of the key's SHA-256."""
    signature: str
    """Ed25519 signature (64 bytes), base64."""


class Tune(OpenEnum):
    """Who chooses how kernels are computed."""

    off = "off"
    fleet = "fleet"


class TuningEntry(Struct, frozen=True, kw_only=True):
    """What is known of one workload on one target."""

    id: Id
    key: Digest
    target: str
    family: str
    inputs: dict[str, str]
    """All that the workload depends on; `key` is their SHA-256."""
    choice: Any
    """Means something to the compiler alone; null until it was decided."""
    choice_text: str | None
    candidates: int
    ms: float | None
    model_ms: float | None
    """Of what the compiler's model chooses."""
    devices: int
    """That agree."""
    source: Source
    provenance: dict[str, Any] | None
    created_at: datetime
    decided_at: datetime | None


Ms: TypeAlias = Annotated[float, Meta(gt=0.0)]
ModelMs: TypeAlias = Annotated[float, Meta(gt=0.0)]


class TuningEntryIn(Struct, frozen=True, kw_only=True):
    """An entry of a file that `pock tuning export` wrote."""

    inputs: Annotated[dict[str, str], Meta(min_length=1)]
    choice: Any
    ms: Ms | UnsetType | None = UNSET
    model_ms: ModelMs | UnsetType | None = UNSET
    provenance: dict[str, Any] | UnsetType | None = UNSET


class TuningEntryPage(Struct, frozen=True, kw_only=True):
    """Entries, newest first."""

    items: list[TuningEntry]
    next_cursor: str | None
    """Null on the last page."""


class TuningImport(Struct, frozen=True, kw_only=True):
    """How many were new, and how many were there; what devices of this workspace decided stays."""

    added: int
    kept: int


class TuningImportIn(Struct, frozen=True, kw_only=True):
    """Entries to be known from now on."""

    target: str
    """A name from `GET /v1/targets`."""
    entries: list[TuningEntryIn]


class TuningState(OpenEnum):
    """Where a tuning stands."""

    building = "building"
    measuring = "measuring"
    succeeded = "succeeded"
    failed = "failed"
    cancelled = "cancelled"


class Unsupported(Struct, frozen=True, kw_only=True):
    """A node that is in the way."""

    operator: str
    node: str
    shapes: str
    needed_for: str
    position: str
    advice: str


class UpdateState(OpenEnum):
    """How one device of a rollout stands."""

    pending = "pending"
    offered = "offered"
    installing = "installing"
    healthy = "healthy"
    failed = "failed"
    rolled_back = "rolled_back"
    unsupported = "unsupported"


class Upload(Struct, frozen=True, kw_only=True):
    """Where an upload stands."""

    id: Id
    offset: int
    """Bytes received; send the rest from here."""
    size: int
    complete: bool
    """True when the blob exists; nothing needs to be sent."""


class UploadIn(Struct, frozen=True, kw_only=True):
    """A file that is about to be sent."""

    digest: Digest
    size: int
    """Bytes."""


class Verdict(Struct, frozen=True, kw_only=True):
    """Whether the measurement can be trusted. Milliseconds of a step."""

    stable: bool
    reasons: list[Reason]
    """Why not."""
    median_ms: float
    """Of the repeats' medians."""
    interval_low: float | None
    """95 % of the median; null for fewer than 6 repeats."""
    interval_high: float | None
    repeats: int


class Version(Struct, frozen=True, kw_only=True):
    """One version of a name."""

    id: Id
    name: str
    version: int
    """Of its name; 1 is the first. 0 for seconds, while a service is upgraded."""


class Webhook(Struct, frozen=True, kw_only=True):
    """An address that is told."""

    id: Id
    url: str
    """Without its query."""
    events: list[Event]
    description: str | None
    enabled: bool
    failing_since: datetime | None
    """When the failures began; null if the last message arrived."""
    disabled_reason: str | None
    created_at: datetime


class WebhookChange(Struct, frozen=True, kw_only=True):
    """What is to change about a webhook; what is left out stays."""

    url: str | UnsetType | None = UNSET
    events: list[Event] | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    enabled: bool | UnsetType | None = UNSET


class WebhookCreated(Struct, frozen=True, kw_only=True):
    """A webhook just made; this is the only time its secret is shown."""

    id: Id
    url: str
    """Without its query."""
    events: list[Event]
    description: str | None
    enabled: bool
    failing_since: datetime | None
    """When the failures began; null if the last message arrived."""
    disabled_reason: str | None
    created_at: datetime
    secret: str
    """`whsec_…`; with it the receiver verifies signatures (standardwebhooks.com)."""


class WebhookIn(Struct, frozen=True, kw_only=True):
    """An address that is to be told."""

    url: str
    """https; a public address, unless the operator allows its network."""
    events: list[Event]
    description: str | UnsetType | None = UNSET


class WebhookPage(Struct, frozen=True, kw_only=True):
    """Webhooks, newest first."""

    items: list[Webhook]
    next_cursor: str | None
    """Null on the last page."""


class WeightsForm(OpenEnum):
    """As what trained weights come back."""

    safetensors = "safetensors"
    delta = "delta"


class Work(Struct, frozen=True, kw_only=True):
    """A build worker's present work, in this workspace."""

    id: Id
    kind: JobKind
    name: str
    started_at: datetime | None
    silent: bool
    """Whether the worker was not heard in time: the work goes to another."""


class After(Struct, frozen=True, kw_only=True):
    """What a run waits for: it is queued when that has succeeded, and fails when that has not."""

    build_id: Id | None = None
    run_id: Id | None = None
    """If that run is tried again, its next try is waited for."""


class AgentFile(Struct, frozen=True, kw_only=True):
    """The agent as one file."""

    sha256: Digest
    size: int


class ApiKey(Struct, frozen=True, kw_only=True):
    """A key without its secret."""

    id: Id
    name: str
    scopes: list[Scope]
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None
    member_id: Id | None = None
    member_name: str | None = None


class ApiKeyCreated(Struct, frozen=True, kw_only=True):
    """A key just made; this is the only time its secret is shown."""

    id: Id
    name: str
    scopes: list[Scope]
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None
    key: str
    """`pk_<id>_<secret>`; shown once."""
    member_id: Id | None = None
    member_name: str | None = None


class ApiKeyIn(Struct, frozen=True, kw_only=True):
    """A key to make."""

    name: str
    scopes: list[Scope]
    """A member's key can do what its member's role can, at most."""
    member_id: Id | UnsetType | None = UNSET
    """Whose key it is; a key of nobody stands for itself."""
    ttl_days: int | UnsetType = UNSET


class ApiKeyPage(Struct, frozen=True, kw_only=True):
    """Keys, newest first."""

    items: list[ApiKey]
    next_cursor: str | None
    """Null on the last page."""


class ArtifactMember(Struct, frozen=True, kw_only=True):
    """A file inside the artifact; its bytes are the blob of this digest."""

    sha256: Digest
    size: int


class AuditActor(Struct, frozen=True, kw_only=True):
    """Who changed something."""

    kind: ActorKind
    name: str
    """Of the member, else of the key, the device or the shell's user."""
    member_id: Id | None
    key_id: Id | None
    session_id: Id | None
    device_id: Id | None


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One change."""

    id: Id
    at: datetime
    workspace_id: Id | None
    """Null for a change of the whole service."""
    action: str
    """`KIND.VERB`, such as `device.revoke`."""
    object: AuditObject
    changes: dict[str, AuditChange]
    """The important fields, never a secret."""
    actor: AuditActor
    address: str | None
    """Where the request came from, as far as trusted proxies say."""
    user_agent: str | None
    request_id: str | None


class AuditPage(Struct, frozen=True, kw_only=True):
    """Entries, newest first."""

    items: list[AuditEntry]
    next_cursor: str | None
    """Null on the last page."""


class BenchmarkIn(Struct, frozen=True, kw_only=True):
    """A build to measure on a device."""

    build_id: Id
    device_id: Id
    dataset_id: Id | UnsetType | None = UNSET
    """Default: made-up numbers."""
    steps: int | UnsetType = UNSET
    """Of each repeat."""
    warmup_steps: int | UnsetType = UNSET
    """Steps of each repeat that do not count."""
    repeats: int | UnsetType = UNSET
    """Fewer than 6 are never stable."""
    cool_down_seconds: int | UnsetType = UNSET
    """Longest pause between two repeats."""
    threads: int | UnsetType | None = UNSET
    """Default: those of the build."""
    priority: int | UnsetType = UNSET
    deadline_seconds: int | UnsetType | None = UNSET
    """Of all repeats and pauses."""
    baseline_id: Id | UnsetType | None = UNSET
    """A benchmark to compare this one with."""


class BrowserSession(Struct, frozen=True, kw_only=True):
    """A signed-in browser."""

    id: Id
    key_id: Id
    name: str
    """Of the member, or of the key if it has none."""
    address: str | None
    """Where it signed in from."""
    user_agent: str | None
    created_at: datetime
    last_used_at: datetime
    expires_at: datetime


class BrowserSessionPage(Struct, frozen=True, kw_only=True):
    """Sessions, newest first."""

    items: list[BrowserSession]
    next_cursor: str | None
    """Null on the last page."""


class Build(Struct, frozen=True, kw_only=True):
    """A build."""

    id: Id
    model_id: Id
    model_name: str
    name: str
    target: str
    threads: int
    recipe: dict[str, Any]
    """What it says."""
    compiler_version: str
    state: BuildState
    progress: Progress | None
    queue_position: int | None
    """1 is next; null unless queued."""
    summary: Summary | None
    artifact_digest: Digest | None
    failure: Failure | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    model: Version | None = None
    version: int | None = None
    """Of its name; 1 is the first. 0 for seconds, while a service is upgraded."""
    tags: list[str] = field(default_factory=list)
    """In the order of their letters."""
    priority: int | None = None
    tune: Tune | None = None
    recipe_version: Version | None = None
    """Null for a recipe without a name."""
    request_id: str | None = None
    """Of the request that asked for it; logs are searched by it."""


class BuildIn(Struct, frozen=True, kw_only=True):
    """A build to make."""

    model_id: Id
    target: str
    """A name from `GET /v1/targets`."""
    recipe: dict[str, Any] | str | UnsetType | None = UNSET
    """An object, or YAML text."""
    recipe_id: Id | UnsetType | None = UNSET
    """Of a recipe that the service keeps, instead of `recipe`."""
    threads: int | UnsetType | None = UNSET
    """Default: the target's cores."""
    name: str | UnsetType | None = UNSET
    """Default: the model's name."""
    priority: int | UnsetType = UNSET
    """Higher ones of a workspace's builds come first."""
    tune: Tune | UnsetType = UNSET


class BuildPage(Struct, frozen=True, kw_only=True):
    """Builds, newest first."""

    items: list[Build]
    next_cursor: str | None
    """Null on the last page."""


class CampaignIn(Struct, frozen=True, kw_only=True):
    """A campaign to run: finished or unfinished builds, or the builds of a model by recipes for targets."""

    name: str
    on: str
    """A selector of devices."""
    steps: int
    build_ids: list[Id] | UnsetType = UNSET
    model_id: Id | UnsetType | None = UNSET
    recipe_ids: list[Id] | UnsetType = UNSET
    targets: list[str] | UnsetType = UNSET
    device_ids: list[Id] | UnsetType = UNSET
    """Only these of them. Default: all."""
    dataset_id: Id | UnsetType | None = UNSET
    eval_dataset_id: Id | UnsetType | None = UNSET
    dataset_name: str | UnsetType | None = UNSET
    """In place of the id: data that stays on the device, by the name it has there."""
    eval_dataset_name: str | UnsetType | None = UNSET
    """In place of the id: data that stays on the device, by the name it has there."""
    entry: Entry | UnsetType = UNSET
    held_out: HeldShare | UnsetType | None = UNSET
    seeds: list[int] | UnsetType = UNSET
    threads: int | UnsetType | None = UNSET
    """Default: those of each build."""
    priority: int | UnsetType = UNSET
    parallelism: int | UnsetType | None = UNSET
    """Runs at once. Default: one a device."""
    per_device: int | UnsetType = UNSET
    """Runs at once of one device."""
    canary: Canary | UnsetType | None = UNSET
    stop: StopRules | UnsetType | None = UNSET
    deadline_seconds: int | UnsetType | None = UNSET
    """Of the whole campaign."""
    run_deadline_seconds: int | UnsetType | None = UNSET
    """Of each run."""
    retries: dict[str, int] | UnsetType | None = UNSET
    """Of each run. Default: transient ones 3 times."""
    retry_delay_seconds: float | UnsetType = UNSET


class CampaignResult(Struct, frozen=True, kw_only=True):
    """What a build did on the devices of a target, or on one device, over all seeds."""

    build_id: Id
    build: str
    """`NAME:vN`, or its id if it was deleted."""
    target: str
    device_id: Id | None
    device_name: str | None
    cells: CellCounts
    failures: dict[str, int]
    """By class of failure, without skipped and cancelled ones."""
    step_ms: Spread | None
    """Median time of a step in milliseconds."""
    peak_bytes: Spread | None
    """Most resident memory."""
    joules_per_step: Spread | None
    """Where devices measure it."""
    loss: Spread | None
    """Of the last step."""
    accuracy: Spread | None
    """Of the evaluation after training, or of an evaluation alone."""
    recipe: str | None = None
    """`NAME:vN` of what is trained; null where the recipe has no name."""


class CampaignResults(Struct, frozen=True, kw_only=True):
    """One row a build and target, or a build and device."""

    by: ResultsBy
    rows: list[CampaignResult]


class Cell(Struct, frozen=True, kw_only=True):
    """One cell: a build on a device with a seed, and what became of it."""

    number: int
    """From 0, in the order in which they are begun."""
    build_id: Id
    device_id: Id
    device_name: str
    target: str
    seed: int
    canary: bool
    state: CellState
    run_id: Id | None
    """Its run, or the last try of it."""
    failure: Failure | None
    finished_at: datetime | None


class CellList(Struct, frozen=True, kw_only=True):
    """Cells in order; ask again with `after` the last number while there are some."""

    items: list[Cell]


class Comparison(Struct, frozen=True, kw_only=True):
    """This benchmark beside another one."""

    other_id: Id
    ratio: float
    """Of the medians: above 1, this one is slower."""
    interval_low: float | None
    """95 % of the ratio; null for very few repeats."""
    interval_high: float | None
    p_value: float
    """Of the rank test of the repeats' medians (Mann and Whitney, exact, two-sided)."""
    same_machine: bool
    differences: list[MachineDifference]


class Concerned(Struct, frozen=True, kw_only=True):
    """One thing that needs somebody."""

    id: Id
    name: str
    detail: str
    """Empty where the concern says it all."""
    at: datetime | None


class Dataset(Struct, frozen=True, kw_only=True):
    """A dataset."""

    id: Id
    name: str
    digest: Digest
    size: int
    """Bytes."""
    samples: int
    tensors: list[Tensor]
    created_at: datetime
    version: int | None = None
    """Of its name; 1 is the first. 0 for seconds, while a service is upgraded."""
    tags: list[str] = field(default_factory=list)
    """In the order of their letters."""
    device_id: Id | None = None
    """The device that it stays on; the service then has none of its bytes."""
    gone_at: datetime | None = None
    """When that device no longer had it."""
    runs: int | None = None
    """Runs on it, in whatever state."""
    used_at: datetime | None = None
    """When the last of these runs was asked for."""


class DatasetIn(Struct, frozen=True, kw_only=True):
    """A dataset whose file was uploaded."""

    name: str
    digest: Digest


class DatasetPage(Struct, frozen=True, kw_only=True):
    """Datasets, newest first."""

    items: list[Dataset]
    next_cursor: str | None
    """Null on the last page."""


class Delivery(Struct, frozen=True, kw_only=True):
    """One event for one webhook."""

    id: Id
    webhook_id: Id
    event: str
    state: DeliveryState
    attempts: int
    next_at: datetime | None
    """Of the next try; null when it is over."""
    status: int | None
    """Of the last answer."""
    problem: str | None
    """Of the last try."""
    payload: dict[str, Any]
    created_at: datetime
    finished_at: datetime | None


class DeliveryPage(Struct, frozen=True, kw_only=True):
    """Deliveries, newest first."""

    items: list[Delivery]
    next_cursor: str | None
    """Null on the last page."""


class Device(Struct, frozen=True, kw_only=True):
    """A device."""

    id: Id
    name: str
    pool: str
    target: str | None
    """The target that the device says it is."""
    state: DeviceState
    last_seen_at: datetime | None
    facts: dict[str, Any]
    """What the agent reports: processor, memory, temperature, battery and so on."""
    agent_version: str | None
    current_run_id: Id | None
    created_at: datetime
    labels: dict[str, str] = field(default_factory=dict)
    """What operators say about it, in the order of the keys."""
    temperature_c: float | None = None
    """Degrees Celsius of its hottest part, as it last reported."""
    throttled: bool | None = None
    """Whether it said last that it is slowed down."""
    memory_bytes: int | None = None
    current_run_name: str | None = None
    """The name of the build that its present run runs."""
    resting: Rest | None = None
    """Why it does no work for now; what is asked of it waits."""


class DevicePage(Struct, frozen=True, kw_only=True):
    """Devices, newest first."""

    items: list[Device]
    next_cursor: str | None
    """Null on the last page."""
    total: int | None = None
    """Of all pages, now."""


class DevicePolicy(Struct, frozen=True, kw_only=True):
    """What a device may do when: its own policy and its pool's, which both have to allow work."""

    policy: Policy | None
    """The device's own."""
    pool: str
    pool_policy: Policy | None
    known: bool
    """The device has told that it keeps these."""
    resting: Rest | None
    """Why it does no work at the moment, by whomever's policy."""
    version: str | None = None
    """Of the device\'s own rules, for `expected`; "none" where it has none."""
    pool_version: str | None = None
    """Of the pool's rules, likewise."""


class DeviceTotals(Struct, frozen=True, kw_only=True):
    """How many devices there are, now; of each kind of group the 100 largest, by name."""

    total: int
    states: dict[str, int]
    """Those that any device is in."""
    throttled: int
    """That say that they are slowed down."""
    resting: int
    """That do no work for now, because a policy forbids it."""
    pools: list[Group]
    targets: list[Group]
    agent_versions: list[Group]


class Distrust(Struct, frozen=True, kw_only=True):
    """A device whose measurements do not count."""

    device_id: Id
    reason: str
    run_id: Id
    since: datetime
    device_name: str | None = None


class DistrustPage(Struct, frozen=True, kw_only=True):
    """Distrusted devices, newest first."""

    items: list[Distrust]
    next_cursor: str | None
    """Null on the last page."""


class EnrolmentToken(Struct, frozen=True, kw_only=True):
    """A token just made; this is the only time it is shown."""

    id: Id
    token: str
    expires_at: datetime


class Federation(Struct, frozen=True, kw_only=True):
    """A federation."""

    id: Id
    name: str
    build_id: Id
    on: str
    rounds: int
    devices_per_round: int
    minimum: int
    aggregation: Aggregation
    state: FederationState
    round: int
    """The one that it is at, or has ended with; 1 is the first."""
    ends_at: datetime | None
    """When the present round ends, or its wait for devices."""
    weights_digest: Digest | None
    """The newest weights, a delta of the build's; null before any."""
    weights_bytes: int | None
    full_weights_bytes: int | None
    """Of all weights of the artifact."""
    up_bytes: int
    """That devices sent."""
    down_bytes: int
    """Of weights that devices fetched; the artifact, once for each, is left out."""
    full_bytes: int
    """What both would be if all weights went both ways."""
    rejected: int
    """Contributions that did not count."""
    epsilon: float | None
    """Privacy spent so far, with `delta`; null without noise."""
    delta: float
    failure: Failure | None
    request_id: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class FederationIn(Struct, frozen=True, kw_only=True):
    """Training on many devices, round by round."""

    name: str
    build_id: Id
    on: str
    """Devices, by a selector."""
    rounds: int
    devices_per_round: int
    minimum: int
    """A round counts if so many devices answer and are accepted."""
    steps: int | UnsetType | None = UNSET
    """Of each device in a round."""
    epochs: Epochs | UnsetType | None = UNSET
    """Instead of steps."""
    dataset: str | UnsetType | None = UNSET
    """A dataset's name, its newest version; `{device}` stands for the device's name."""
    datasets: dict[str, Id] | UnsetType | None = UNSET
    """Instead: device to dataset. Others take no part."""
    aggregation: Aggregation | UnsetType = UNSET
    server_learning_rate: Annotated[float, Meta(gt=0.0)] | UnsetType = UNSET
    clip_norm: ClipNorm | UnsetType | None = UNSET
    """Updates that are longer are made this long."""
    noise_multiplier: NoiseMultiplier | UnsetType | None = UNSET
    """Deviation of the noise, in clip norms."""
    delta: Annotated[float, Meta(gt=0.0, lt=1.0)] | UnsetType = UNSET
    """Of the privacy that is stated."""
    norm_bound: NormBound | UnsetType | None = UNSET
    """Longest update, in medians of the round's."""
    round_deadline_seconds: int | UnsetType = UNSET
    """Of its wait and of its training."""
    seed: int | UnsetType = UNSET
    """Of the choice of devices and of their training."""
    threads: int | UnsetType | None = UNSET
    """Default: those of the build."""
    priority: int | UnsetType = UNSET
    weights_of: str | UnsetType | None = UNSET
    """Begin with what a run trained, or a digest's weights."""


class FederationPage(Struct, frozen=True, kw_only=True):
    """Federations, newest first."""

    items: list[Federation]
    next_cursor: str | None
    """Null on the last page."""


class Fits(Struct, frozen=True, kw_only=True):
    """The models that were built last, at most 100, and whether the dataset fits them."""

    items: list[ModelFit]


class Graph(Struct, frozen=True, kw_only=True):
    """A graph: nodes in the order in which they run, and edges from maker to reader."""

    nodes: list[GraphNode]
    edges: list[list[Any]]


class Layer(Struct, frozen=True, kw_only=True):
    """The nodes from one module's parameters to the next module's."""

    name: str
    operators: list[str]
    shape: list[int]
    """Of the layer's result."""
    param_count: int
    parameters: list[LayerParameter]
    flops: int
    """Of the forward pass."""
    share: float
    """Of the model's forward operations, from 0 to 1."""
    saved_bytes: int
    """What of its results the backward pass needs."""
    saved_share: float


class LongerWork(Struct, frozen=True, kw_only=True):
    """The longer work that asked for a run."""

    kind: LongerWorkKind
    id: Id
    name: str
    """Its own, or that of its build where it has none."""


class Member(Struct, frozen=True, kw_only=True):
    """A member."""

    id: Id
    name: str
    email: str | None
    role: Role
    created_at: datetime
    disabled_at: datetime | None


class MemberChange(Struct, frozen=True, kw_only=True):
    """What is to change about a member; what is left out stays."""

    name: str | UnsetType | None = UNSET
    email: str | UnsetType | None = UNSET
    role: Role | UnsetType | None = UNSET
    disabled: bool | UnsetType | None = UNSET
    """A disabled member's keys and sessions open nothing."""


class MemberIn(Struct, frozen=True, kw_only=True):
    """A member to add."""

    name: str
    """Of a person or script; unique in the workspace."""
    role: Role
    email: str | UnsetType | None = UNSET


class MemberPage(Struct, frozen=True, kw_only=True):
    """Members, newest first."""

    items: list[Member]
    next_cursor: str | None
    """Null on the last page."""


class Program(Struct, frozen=True, kw_only=True):
    """One entry point with its schedule and memory plan."""

    arena_bytes: int | None = None
    lower_bound_bytes: int | None = None
    nodes: list[Node] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)


class ReleaseDocument(Struct, frozen=True, kw_only=True):
    """What a release consists of, signed by root keys over `pock-agent-release\\n` and the payload's bytes."""

    payload: str
    """Base64 of the JSON text that is signed."""
    signatures: list[TrustSignature]


class Report(Struct, frozen=True, kw_only=True):
    """The executable's report (docs/reference/binary.md), with what the agent adds to it."""

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
    evaluations: list[Evaluation] | None = None
    best_step: int | None = None
    best_loss: float | None = None
    stopped_early: bool | None = None
    ended: str | None = None
    """What ended the training: steps, epochs or patience."""
    held_out: HeldOutReport | None = None
    kernels: list[KernelMs] | None = None
    stability: Stability | None = None
    energy: Energy | None = None


class Reports(Struct, frozen=True, kw_only=True):
    """Everything the agent measured; `health` is the device's before, during and after."""

    train: Report | None = None
    eval_before: Report | None = None
    eval_after: Report | None = None
    health: dict[str, Any] = field(default_factory=dict)


class Rollout(Struct, frozen=True, kw_only=True):
    """A rollout."""

    id: Id
    state: RolloutState
    release_id: Id
    version: str
    on: str
    canary: int
    stages: list[int]
    stage: int
    """0: the canary; N: the Nth of the stages."""
    healthy_seconds: int
    check_in_seconds: int
    max_failed: int
    reason: str
    """Why it stopped; else empty."""
    devices: dict[str, int]
    """How many are in each state."""
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class RolloutDevice(Struct, frozen=True, kw_only=True):
    """A device of a rollout."""

    device_id: Id
    device_name: str
    stage: int
    """That it belongs to; -1: none, as it cannot take part."""
    state: UpdateState
    detail: str
    """What the device says of it."""
    version_before: str | None
    checked_in_at: datetime | None
    """When the release last told that it runs."""
    changed_at: datetime
    resting: Rest | None
    """Why a device that is offered something does not ask for it now."""


class RolloutDevicePage(Struct, frozen=True, kw_only=True):
    """Devices of a rollout."""

    items: list[RolloutDevice]
    next_cursor: str | None
    """Null on the last page."""


class RolloutPage(Struct, frozen=True, kw_only=True):
    """Rollouts, newest first."""

    items: list[Rollout]
    next_cursor: str | None
    """Null on the last page."""


class RoundMember(Struct, frozen=True, kw_only=True):
    """A device in a round."""

    device_id: Id
    device_name: str
    run_id: Id
    samples: int
    state: RoundMemberState
    reason: str | None = None
    norm: float | None = None
    """The length of its update."""
    clipped: bool = False
    part: float | None = None
    """Of the mean; together 1."""


class Run(Struct, frozen=True, kw_only=True):
    """A run."""

    id: Id
    build_id: Id
    device_id: Id
    device_name: str
    target: str
    dataset_id: Id | None
    eval_dataset_id: Id | None
    entry: Entry
    steps: int
    threads: int
    seed: int
    save_weights: bool
    state: RunState
    attempt: int
    queue_position: int | None
    """1 is next; null unless queued."""
    progress: RunProgress | None
    report: Reports | None
    weights_digest: Digest | None
    failure: Failure | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    model: Version | None = None
    recipe: Version | None = None
    """Null for a recipe without a name."""
    build: Version | None = None
    dataset: Version | None = None
    eval_dataset: Version | None = None
    profile: bool = False
    """Whether each kernel is timed: `report.train.kernels`."""
    held_out: HeldShare | None = None
    initial_weights_digest: Digest | None = None
    """The weights that it began with, if not its artifact's."""
    part_of: Id | None = None
    """The longer work that asked for this run."""
    longer_work: LongerWork | None = None
    """What that is; null if it was deleted."""
    priority: int | None = None
    not_before: datetime | None = None
    after: After | None = None
    """What it waits, or waited, for."""
    retries: dict[str, int] = field(default_factory=dict)
    """How often it may still be tried again."""
    retry: int | None = None
    """0 for the first try."""
    retry_of: Id | None = None
    """The run that failed, which this one is the next try of."""
    retried_by: Id | None = None
    """The next try of this run."""
    paused: Paused | None = None
    """Its device may not work for now; the state stays running."""
    weights_form: WeightsForm | None = None
    """As what the weights came; null without them."""
    weights_bytes: int | None = None
    full_weights_bytes: int | None = None
    """Of all weights of its artifact, for comparison."""
    request_id: str | None = None
    """Of the request that asked for it; logs are searched by it."""


class RunIn(Struct, frozen=True, kw_only=True):
    """Work for a device."""

    build_id: Id
    device_id: Id
    steps: int
    dataset_id: Id | UnsetType | None = UNSET
    """A benchmark needs none: it then makes its inputs itself."""
    eval_dataset_id: Id | UnsetType | None = UNSET
    dataset_name: str | UnsetType | None = UNSET
    """In place of the id: data that stays on the device, by the name it has there."""
    eval_dataset_name: str | UnsetType | None = UNSET
    """In place of the id: data that stays on the device, by the name it has there."""
    entry: Entry | UnsetType = UNSET
    threads: int | UnsetType | None = UNSET
    """Default: those of the build."""
    seed: int | UnsetType = UNSET
    save_weights: bool | UnsetType = UNSET
    profile: bool | UnsetType = UNSET
    """Time each kernel, too; steps take a little longer."""
    held_out: HeldShare | UnsetType | None = UNSET
    weights_form: WeightsForm | UnsetType = UNSET
    weights_of: str | UnsetType | None = UNSET
    """Weights to begin with: those that this run trained, or the blob of this digest."""
    deadline_seconds: int | UnsetType | None = UNSET
    """Wall-clock limit of the run."""
    queue_deadline_seconds: int | UnsetType | None = UNSET
    """Limit of the wait."""
    priority: int | UnsetType = UNSET
    """A device takes the highest first."""
    after: After | UnsetType | None = UNSET
    """What to wait for; a build may be the run's own."""
    retries: dict[str, int] | UnsetType | None = UNSET
    """Default: transient ones 3 times, no others."""
    retry_delay_seconds: float | UnsetType = UNSET
    """Before the first retry; each further one waits twice as long."""


class RunPage(Struct, frozen=True, kw_only=True):
    """Runs, newest first."""

    items: list[Run]
    next_cursor: str | None
    """Null on the last page."""


class Scheduled(Struct, frozen=True, kw_only=True):
    """What is asked for again and again."""

    campaign: CampaignIn | None = None
    benchmark: BenchmarkIn | None = None


class Search(Struct, frozen=True, kw_only=True):
    """A search."""

    id: Id
    model: Version
    dataset: Version
    eval_dataset: Version | None
    target: str
    threads: int
    recipe: dict[str, Any]
    """What it began with; empty: what suits the model."""
    memory_bytes: int | None
    step_ms: float | None
    method: SearchMethod
    prefer: SearchPreference
    minutes: float
    confirm: int
    seed: int
    name: str
    priority: int
    compiler_version: str
    state: BuildState
    progress: Progress | None
    queue_position: int | None
    """1 is next; null unless queued."""
    found: Found | None
    recipe_version: Version | None
    """The recipe that was found; null if it was deleted."""
    result_digest: Digest | None
    """Of all that was found, as JSON; a blob."""
    report_digest: Digest | None
    """Of the page that says why, HTML; a blob."""
    failure: Failure | None
    request_id: str | None
    """Of the request that asked for it; logs are searched by it."""
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    joules: float | None = None
    watts: float | None = None
    channels: SearchChannels | None = None
    lr_steps: int | None = None
    tries: bool | None = None
    recompute: bool | None = None
    micro_batches: bool | None = None
    """Null: where it trains the same."""
    ranks: list[int] = field(default_factory=list)


class SearchIn(Struct, frozen=True, kw_only=True):
    """A search for which parameters to train."""

    model_id: Id
    dataset_id: Id
    target: str
    """A name from `GET /v1/targets`."""
    eval_dataset_id: Id | UnsetType | None = UNSET
    """Held out; for `measured` and `confirm`."""
    recipe: dict[str, Any] | str | UnsetType | None = UNSET
    """Loss, optimizer and batch; its `update` is not read. Default: what suits the model."""
    recipe_id: Id | UnsetType | None = UNSET
    """Of a recipe that the service keeps, instead of `recipe`."""
    threads: int | UnsetType | None = UNSET
    """Default: the target's cores."""
    memory_bytes: int | UnsetType | None = UNSET
    """What the predicted peak may be."""
    step_ms: StepMs1 | UnsetType | None = UNSET
    """What a step may take, as predicted."""
    joules: Joules | UnsetType | None = UNSET
    """What a step may take; needs `watts`."""
    watts: Watts | UnsetType | None = UNSET
    """What the target draws while it trains: a run's `mean_watts`."""
    method: SearchMethod | UnsetType = UNSET
    channels: SearchChannels | UnsetType = UNSET
    prefer: SearchPreference | UnsetType = UNSET
    minutes: Annotated[float, Meta(gt=0.0)] | UnsetType = UNSET
    """What finding contributions may take, and finding learning rates again; `measured` uses it."""
    lr_steps: int | UnsetType = UNSET
    """Steps of each short training that finds learning rates; 0: the recipe's stay."""
    tries: bool | UnsetType = UNSET
    """Train what else fits, too, each at its best learning rates, and take the best; needs `lr_steps`."""
    recompute: bool | UnsetType | None = UNSET
    """What fits because forward nodes are computed twice counts, too; default: with `memory_bytes`."""
    micro_batches: bool | UnsetType | None = UNSET
    """What fits because a step takes micro-batches counts, too; default: where that trains the same."""
    confirm: int | UnsetType = UNSET
    """Steps of short trainings that compare what was found; 0: none."""
    ranks: list[int] | UnsetType = UNSET
    """Of low-rank adapters that may be trained beside weights, in their place; with `fisher` only."""
    seed: int | UnsetType = UNSET
    name: str | UnsetType | None = UNSET
    """Of the recipe that is found; default: the model's name."""
    priority: int | UnsetType = UNSET
    """As of builds, which wait in the same queue."""


class SearchPage(Struct, frozen=True, kw_only=True):
    """Searches, newest first."""

    items: list[Search]
    next_cursor: str | None
    """Null on the last page."""


class Statistics(Struct, frozen=True, kw_only=True):
    """The numbers of each tensor that can be shown."""

    tensors: list[TensorStatistics]


class Takes(Struct, frozen=True, kw_only=True):
    """What a recipe takes on a target. The parts in bytes sum to `predicted_peak_bytes`."""

    predicted_peak_bytes: int
    memory: str
    memory_bytes: int
    ram_bytes: int
    fits: bool
    """Whether a quarter of the memory is left to the system."""
    target: str
    threads: int
    batch: int
    step_ms: float
    """What the compiler's model expects of a step; nothing was measured."""
    param_bytes: int
    state_bytes: int
    const_bytes: int
    input_bytes: int
    arena_bytes: int
    lower_bound_bytes: int
    saved_bytes: int
    nodes_forward: int
    nodes_backward: int
    nodes_backward_dense: int
    kernels: int
    flops: dict[str, int]
    parameters: int
    trained_parameters: int
    runtime_bytes: int | None = None
    """Code, tables, stacks, buffers: an estimate."""
    recomputed_nodes: int = 0
    recomputed_share: float = 0.0
    left_out: dict[str, str] | None = None
    targets: dict[str, TargetFit] | None = None


class Tuning(Struct, frozen=True, kw_only=True):
    """A search for what is best for a build's unknown workloads."""

    id: Id
    build_id: Id
    build_name: str
    target: str
    threads: int
    state: TuningState
    packs: int
    """Programs of trials so far."""
    tried: int
    """Workloads in them, but for the present one."""
    trying: int
    """Workloads in the present one."""
    decided: int
    failure: Failure | None
    created_at: datetime
    finished_at: datetime | None


class TuningPage(Struct, frozen=True, kw_only=True):
    """Tunings, newest first."""

    items: list[Tuning]
    next_cursor: str | None
    """Null on the last page."""


class Usage(Struct, frozen=True, kw_only=True):
    """What the workspace has, may have, and waits for."""

    quotas: list[Quota]
    storage: Storage
    queues: list[Queue]
    workers: list[Work]
    """The newest few."""
    runner: str
    """Who builds: the service itself, workers by way of a broker, or nobody."""
    builds_at_once: int
    """How many builds of this workspace are at work at most."""


class Usual(Struct, frozen=True, kw_only=True):
    """What a usual recipe takes, or why it cannot be used on this model."""

    takes: Takes | None = None
    error: str | None = None


class AgentRelease(Struct, frozen=True, kw_only=True):
    """A release of the agent."""

    id: Id
    version: str
    files: dict[str, AgentFile]
    """By platform, such as `linux-aarch64`."""
    issued_at: datetime
    expires_at: datetime
    """From then on no agent takes it any more; sign it anew."""
    downgrade: bool
    """Whether agents of a newer version may go back to it."""
    revert: bool
    """Whether a rollout of it can be taken back, to the version before."""
    notes: str
    document: ReleaseDocument
    created_at: datetime


class AgentReleaseIn(Struct, frozen=True, kw_only=True):
    """A release to keep; its files have been uploaded."""

    document: ReleaseDocument
    notes: str | UnsetType = UNSET
    """For people."""


class AgentReleasePage(Struct, frozen=True, kw_only=True):
    """Releases, newest first."""

    items: list[AgentRelease]
    next_cursor: str | None
    """Null on the last page."""


class Artifact(Struct, frozen=True, kw_only=True):
    """`manifest.json` of the artifact, plus `digest`, `size` and `build_id`."""

    digest: Digest
    size: int
    build_id: Id
    format: int
    name: str
    created_by: dict[str, str]
    target: dict[str, Any]
    recipe: dict[str, Any]
    threads: int
    summary: Summary
    members: dict[str, ArtifactMember]
    programs: dict[str, Program]
    tensors: list[ArtifactTensor]
    inputs: list[Port]
    outputs: list[Port]
    entry_points: dict[str, str]


class Benchmark(Struct, frozen=True, kw_only=True):
    """A benchmark."""

    id: Id
    state: BenchmarkState
    run_id: Id
    build_id: Id
    build_name: str
    build_version: int
    model_name: str
    recipe_name: str | None
    """Null for a recipe without a name."""
    device_id: Id
    device_name: str
    device_kind: str
    """Its processor, and how many."""
    target: str
    threads: int
    steps: int
    warmup_steps: int
    repeats_wanted: int
    cool_down_seconds: int
    priority: int
    baseline_id: Id | None
    verdict: Verdict | None
    repeats: list[Repeat] | None
    """Null in lists, and until it is over."""
    comparison: Comparison | None
    """With the baseline; null in lists, and where there is none."""
    failure: Failure | None
    request_id: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class BenchmarkPage(Struct, frozen=True, kw_only=True):
    """Benchmarks, newest first."""

    items: list[Benchmark]
    next_cursor: str | None
    """Null on the last page."""


class Campaign(Struct, frozen=True, kw_only=True):
    """A campaign."""

    id: Id
    name: str
    state: CampaignState
    order: CampaignIn
    build_ids: list[Id]
    """Its builds, those that were made for it and those that were there."""
    cells: CellCounts
    missing_targets: list[str]
    """Targets of builds of which no device was chosen."""
    canary_ended_at: datetime | None
    """When all cells of the canaries had succeeded."""
    schedule_id: Id | None
    """The schedule that asked for it."""
    failure: Failure | None
    created_at: datetime
    ends_at: datetime | None
    """Its deadline."""
    finished_at: datetime | None


class CampaignPage(Struct, frozen=True, kw_only=True):
    """Campaigns, newest first."""

    items: list[Campaign]
    next_cursor: str | None
    """Null on the last page."""


class Check(Struct, frozen=True, kw_only=True):
    """What is in a model, whether it can be trained, and what that takes."""

    supported: bool
    missing_weights: bool
    """Whether files of weights were not looked at; nothing here needs them."""
    operators: list[OperatorUse]
    unsupported: list[Unsupported]
    inputs: dict[str, str]
    """Name to type, such as `f32[8, 3, 32, 32]`."""
    outputs: dict[str, str]
    param_count: int
    flops_forward: int
    layers: list[Layer]
    recipes: dict[str, Usual]
    """Training all of it, its head, its biases, with the usual loss and AdamW."""


class Concern(Struct, frozen=True, kw_only=True):
    """All things that need somebody for one reason."""

    concern: ConcernKind
    count: int
    items: list[Concerned]
    """The newest few."""


class Estimate(Struct, frozen=True, kw_only=True):
    """The same, with what the recipe trains of each layer."""

    predicted_peak_bytes: int
    memory: str
    memory_bytes: int
    ram_bytes: int
    fits: bool
    """Whether a quarter of the memory is left to the system."""
    target: str
    threads: int
    batch: int
    step_ms: float
    """What the compiler's model expects of a step; nothing was measured."""
    param_bytes: int
    state_bytes: int
    const_bytes: int
    input_bytes: int
    arena_bytes: int
    lower_bound_bytes: int
    saved_bytes: int
    nodes_forward: int
    nodes_backward: int
    nodes_backward_dense: int
    kernels: int
    flops: dict[str, int]
    parameters: int
    trained_parameters: int
    layers: list[Layer]
    recipe: dict[str, Any]
    """In its canonical form: defaults filled in."""
    runtime_bytes: int | None = None
    """Code, tables, stacks, buffers: an estimate."""
    recomputed_nodes: int = 0
    recomputed_share: float = 0.0
    left_out: dict[str, str] | None = None
    targets: dict[str, TargetFit] | None = None


class Me(Struct, frozen=True, kw_only=True):
    """Who the caller is and what it may do now."""

    name: str
    """Of the member, or of the key if it has none."""
    member: Member | None
    workspace: Named
    key: Named
    session_id: Id | None
    """Of the browser, if the request came with a session."""
    scopes: list[Scope]
    """Of the key, as far as the member's role has them now."""
    expires_at: datetime
    """When this key or session ends at the latest."""


class Overview(Struct, frozen=True, kw_only=True):
    """What goes on in the workspace."""

    models: int
    datasets: int
    devices: dict[str, int]
    """States without devices are left out."""
    builds: dict[str, int]
    runs: dict[str, int]
    concerns: list[Concern]
    """The most urgent first."""


class Round(Struct, frozen=True, kw_only=True):
    """A round of a federation."""

    number: int
    members: list[RoundMember]
    loss: float | None
    """The mean of the devices' last losses."""
    step_norm: float | None
    """How far the weights went."""
    weights_digest: Digest | None
    """After the round; there only while something uses it."""
    up_bytes: int
    down_bytes: int
    began_at: datetime
    finished_at: datetime | None


class RoundList(Struct, frozen=True, kw_only=True):
    """Rounds in order, at most 100; ask again with `after` the last one."""

    items: list[Round]


class Schedule(Struct, frozen=True, kw_only=True):
    """A schedule."""

    id: Id
    name: str
    cron: str
    timezone: str
    what: Scheduled
    skip_if_running: bool
    enabled: bool
    next_at: datetime | None
    """Null while it is not enabled."""
    last: Time | None
    """The last time that it was due."""
    created_at: datetime


class ScheduleIn(Struct, frozen=True, kw_only=True):
    """A schedule to keep."""

    name: str
    cron: str
    """Five fields: minute, hour, day of month, month, day of week."""
    what: Scheduled
    timezone: str | UnsetType = UNSET
    """Such as Europe/Berlin."""
    skip_if_running: bool | UnsetType = UNSET
    """Ask for nothing while the last one is not over."""
    enabled: bool | UnsetType = UNSET


class SchedulePage(Struct, frozen=True, kw_only=True):
    """Schedules, newest first."""

    items: list[Schedule]
    next_cursor: str | None
    """Null on the last page."""
