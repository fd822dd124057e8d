"""Bodies of the build calls."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pock_server.http.fields import Digest, Id, Name, RecipeObject
from pock_server.http.pages import PageOut
from pock_server.names.schemas import Tags, Version, VersionOut
from pock_server.recipes.schemas import RecipeText


class BuildState(StrEnum):
    """Where a build stands."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class BuildKind(StrEnum):
    """What a build makes."""

    MODEL = "model"
    """A training step."""
    TRIALS = "trials"
    """Candidates of kernels for devices to try (`pock_server.tuning`); such builds are not listed."""
    SEARCH = "search"
    """A recipe (`pock_server.searches`): only by those who serve it is it taken for a build."""


class Tune(StrEnum):
    """Who chooses how kernels are computed."""

    OFF = "off"
    """The compiler's model."""
    FLEET = "fleet"
    """What devices measured, as far as that is known; what is not will be tried on idle ones."""


class BuildIn(BaseModel):
    """A build to make."""

    model_id: Id
    recipe: RecipeObject | RecipeText | None = Field(default=None, description="An object, or YAML text.")
    recipe_id: Id | None = Field(default=None, description="Of a recipe that the service keeps, instead of `recipe`.")
    target: Name = Field(description="A name from `GET /v1/targets`.")
    threads: int | None = Field(default=None, ge=1, le=256, description="Default: the target's cores.")
    name: Name | None = Field(default=None, description="Default: the model's name.")
    priority: int = Field(default=0, ge=-10, le=10, description="Higher ones of a workspace's builds come first.")
    tune: Tune = Field(default=Tune.OFF, description="`fleet`: with what devices measured; see docs/tuning.md.")

    @model_validator(mode="after")
    def _one_recipe(self) -> "BuildIn":
        if (self.recipe is None) == (self.recipe_id is None):
            raise ValueError("give either recipe or recipe_id")
        return self


class ProgressOut(BaseModel):
    """How far a build is."""

    stage: str
    done: int
    total: int
    fraction: float = Field(ge=0, le=1, description="Of this stage.")


class FailureOut(BaseModel):
    """Why a build or run failed."""

    code: int = Field(description="A failure code of docs/service.md.")
    detail: str = Field(description="One sentence.")


class Flops(BaseModel):
    """Floating point operations of one step."""

    model_config = ConfigDict(extra="allow")

    forward: int | float | None = None
    backward: int | float | None = None


class KnownOut(BaseModel):
    """How much was known of a build's workloads."""

    model_config = ConfigDict(extra="allow")

    workloads: int = 0
    hits: int = Field(default=0, description="Whose best candidate was known.")
    by_model: int = Field(default=0, description="Left to the compiler's model.")
    to_try: int = Field(default=0, description="Of those, the ones that devices can try.")
    known_by: dict[str, int] = Field(default={}, description="The hits by where they come from: fleet, import.")


class SummaryOut(BaseModel):
    """What `pock compile --json` prints; the compiler may add fields."""

    model_config = ConfigDict(extra="allow")

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
    tuning: KnownOut | None = None


class BuildOut(BaseModel):
    """A build."""

    id: Id
    model_id: Id
    model_name: str
    model: VersionOut
    name: str
    version: Version
    tags: Tags
    target: str
    threads: int
    priority: int
    tune: Tune
    recipe: dict[str, Any] = Field(description="What it says.")
    recipe_version: VersionOut | None = Field(description="Null for a recipe without a name.")
    compiler_version: str
    state: BuildState
    progress: ProgressOut | None
    queue_position: int | None = Field(description="1 is next; null unless queued.")
    summary: SummaryOut | None
    artifact_digest: Digest | None
    failure: FailureOut | None
    request_id: str | None = Field(description="Of the request that asked for it; logs are searched by it.")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class BuildPage(PageOut[BuildOut]):
    """Builds, newest first."""
