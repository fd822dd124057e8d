"""Types of the interface. Generated from web/openapi.json by `python -m client.generate`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, field

from pock_client.enumeration import OpenEnum


class ActorKind(OpenEnum):
    """How somebody came in."""

    api_key = "api_key"
    session = "session"
    device = "device"
    command_line = "command_line"
    service = "service"


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


class BuildState(OpenEnum):
    """Where a build stands."""

    queued = "queued"
    running = "running"
    succeeded = "succeeded"
    failed = "failed"
    cancelled = "cancelled"


class DeviceChange(Struct, frozen=True, kw_only=True):
    """What is to change about a device; what is left out stays."""

    name: str | UnsetType | None = UNSET
    pool: str | UnsetType | None = UNSET
    labels: dict[str, str | None] | UnsetType = UNSET
    """Those that are named change; null takes a label away."""


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
    """board or processor"""


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


class Evaluation(Struct, frozen=True, kw_only=True):
    """An evaluation during training."""

    step: int
    epoch: int
    samples: int
    loss: float | None = None
    accuracy: float | None = None
    perplexity: float | None = None
    best: bool = False


class Failure(Struct, frozen=True, kw_only=True):
    """Why a build or run failed."""

    code: int
    """A failure code of docs/service.md."""
    detail: str
    """One sentence."""


class FieldError(Struct, frozen=True, kw_only=True):
    """One part of a request that did not validate."""

    where: str
    """Path of the part, e.g. `body.recipe.batch`."""
    message: str


class Flops(Struct, frozen=True, kw_only=True):
    """Floating point operations of one step."""

    forward: int | float | None = None
    backward: int | float | None = None


Id: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")]
"""UUIDv7."""


class KernelMs(Struct, frozen=True, kw_only=True):
    """Time of one kernel."""

    name: str | None = None
    kernel: str | None = None
    ms: float | None = None
    flops: float | None = None
    bytes: float | None = None


class Model(Struct, frozen=True, kw_only=True):
    """A model."""

    id: Id
    name: str
    version: int
    """Of its name; 1 is the first. 0 for seconds, while a service is upgraded."""
    tags: list[str]
    """In the order of their letters."""
    digest: Digest
    size: int
    """Bytes of the ONNX file."""
    external: dict[str, Digest]
    created_at: datetime


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


class Port(Struct, frozen=True, kw_only=True):
    """An input or output of the step."""

    name: str
    dtype: str
    shape: list[int]


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


class Role(OpenEnum):
    """What a member is to its workspace."""

    viewer = "viewer"
    developer = "developer"
    operator = "operator"
    admin = "admin"


class RunIn(Struct, frozen=True, kw_only=True):
    """Work for a device."""

    build_id: Id
    device_id: Id
    dataset_id: Id
    steps: int
    eval_dataset_id: Id | UnsetType | None = UNSET
    entry: Entry | UnsetType = UNSET
    threads: int | UnsetType | None = UNSET
    """Default: those of the build."""
    seed: int | UnsetType = UNSET
    save_weights: bool | UnsetType = UNSET
    deadline_seconds: int | UnsetType | None = UNSET
    """Wall-clock limit of the run."""
    queue_deadline_seconds: int | UnsetType | None = UNSET
    """Limit of the wait."""


class RunProgress(Struct, frozen=True, kw_only=True):
    """How far a run is."""

    step: int
    steps: int
    loss: float | None


class RunState(OpenEnum):
    """Where a run stands."""

    queued = "queued"
    leased = "leased"
    running = "running"
    succeeded = "succeeded"
    failed = "failed"
    cancelled = "cancelled"


class Scope(OpenEnum):
    """What an API key may do."""

    read = "read"
    models_write = "models:write"
    builds_write = "builds:write"
    runs_write = "runs:write"
    devices_admin = "devices:admin"
    keys_admin = "keys:admin"
    audit_read = "audit:read"


class Slot(Struct, frozen=True, kw_only=True):
    """A value's place in the arena and its life, as inclusive node indices."""

    value: str
    offset: int
    nbytes: int
    first: int
    last: int
    kind: str


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


class Target(Struct, frozen=True, kw_only=True):
    """A device type the compiler builds for; further fields are those of its description file."""

    name: str
    description: str
    triple: str


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


class Version(Struct, frozen=True, kw_only=True):
    """One version of a name."""

    id: Id
    name: str
    version: int
    """Of its name; 1 is the first. 0 for seconds, while a service is upgraded."""


class ApiKey(Struct, frozen=True, kw_only=True):
    """A key without its secret."""

    id: Id
    name: str
    scopes: list[Scope]
    member_id: Id | None
    member_name: str | None
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None


class ApiKeyCreated(Struct, frozen=True, kw_only=True):
    """A key just made; this is the only time its secret is shown."""

    id: Id
    name: str
    scopes: list[Scope]
    member_id: Id | None
    member_name: str | None
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None
    key: str
    """`pk_<id>_<secret>`; shown once."""


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
    model: Version
    name: str
    version: int
    """Of its name; 1 is the first. 0 for seconds, while a service is upgraded."""
    tags: list[str]
    """In the order of their letters."""
    target: str
    threads: int
    priority: int
    recipe: dict[str, Any]
    """What it says."""
    recipe_version: Version | None
    """Null for a recipe without a name."""
    compiler_version: str
    state: BuildState
    progress: Progress | None
    queue_position: int | None
    """1 is next; null unless queued."""
    summary: Summary | None
    artifact_digest: Digest | None
    failure: Failure | None
    request_id: str | None
    """Of the request that asked for it; logs are searched by it."""
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


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


class BuildPage(Struct, frozen=True, kw_only=True):
    """Builds, newest first."""

    items: list[Build]
    next_cursor: str | None
    """Null on the last page."""


class Dataset(Struct, frozen=True, kw_only=True):
    """A dataset."""

    id: Id
    name: str
    version: int
    """Of its name; 1 is the first. 0 for seconds, while a service is upgraded."""
    tags: list[str]
    """In the order of their letters."""
    digest: Digest
    size: int
    """Bytes."""
    samples: int
    tensors: list[Tensor]
    created_at: datetime


class DatasetIn(Struct, frozen=True, kw_only=True):
    """A dataset whose file was uploaded."""

    name: str
    digest: Digest


class DatasetPage(Struct, frozen=True, kw_only=True):
    """Datasets, newest first."""

    items: list[Dataset]
    next_cursor: str | None
    """Null on the last page."""


class Device(Struct, frozen=True, kw_only=True):
    """A device."""

    id: Id
    name: str
    pool: str
    labels: dict[str, str]
    """What operators say about it, in the order of the keys."""
    target: str | None
    """The target that the device says it is."""
    state: DeviceState
    last_seen_at: datetime | None
    facts: dict[str, Any]
    """What the agent reports: processor, memory, temperature, battery and so on."""
    agent_version: str | None
    current_run_id: Id | None
    created_at: datetime


class DevicePage(Struct, frozen=True, kw_only=True):
    """Devices, newest first."""

    items: list[Device]
    next_cursor: str | None
    """Null on the last page."""
    total: int
    """Of all pages, now."""


class EnrolmentToken(Struct, frozen=True, kw_only=True):
    """A token just made; this is the only time it is shown."""

    id: Id
    token: str
    expires_at: datetime


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
    kernels: list[KernelMs] | None = None
    stability: Stability | None = None
    energy: Energy | None = None


class Reports(Struct, frozen=True, kw_only=True):
    """Everything the agent measured; `health` is the device's before, during and after."""

    train: Report | None = None
    eval_before: Report | None = None
    eval_after: Report | None = None
    health: dict[str, Any] = field(default_factory=dict)


class Run(Struct, frozen=True, kw_only=True):
    """A run."""

    id: Id
    build_id: Id
    device_id: Id
    device_name: str
    target: str
    dataset_id: Id
    eval_dataset_id: Id | None
    model: Version
    recipe: Version | None
    """Null for a recipe without a name."""
    build: Version
    dataset: Version
    eval_dataset: Version | None
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
    request_id: str | None
    """Of the request that asked for it; logs are searched by it."""
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class RunPage(Struct, frozen=True, kw_only=True):
    """Runs, newest first."""

    items: list[Run]
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
