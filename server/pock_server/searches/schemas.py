"""Bodies of the calls about searches."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pock_server.builds.schemas import BuildState, FailureOut, ProgressOut
from pock_server.http.fields import Digest, Id, Name, RecipeObject
from pock_server.http.pages import PageOut
from pock_server.names.schemas import VersionOut
from pock_server.recipes.schemas import RecipeText

MOST_MINUTES = 1440
MOST_STEPS = 10_000
"""Of each short training: those that confirm what was found, and those that find learning rates."""
MOST_WATTS = 1e5
MOST_RANK, MOST_RANKS = 1024, 4
"""Of low-rank adapters."""


class SearchMethod(StrEnum):
    """How it is found what each parameter brings."""

    FISHER = "fisher"
    """Fisher information, in one pass over the data."""
    MEASURED = "measured"
    """Short trainings, held against data that were held out."""
    GRADIENT = "gradient"
    """The ratio of gradient to weight over the first steps."""


class SearchChannels(StrEnum):
    """By what the input channels are chosen that are trained of a weight."""

    ACTIVATION = "activation"
    """How large what they carry is."""
    FISHER = "fisher"
    """Fisher information."""
    GRADIENT = "gradient"
    """How large the weight's gradient is."""
    MAGNITUDE = "magnitude"
    """How large the weight's numbers are."""


class SearchPreference(StrEnum):
    """Which scheme of those within the limits."""

    ACCURACY = "accuracy"
    """What brings most."""
    MEMORY = "memory"
    """What takes the least memory and brings nearly as much."""
    TIME = "time"
    """What takes the least time and brings nearly as much."""
    BALANCED = "balanced"
    """Where what it brings is most above what it takes."""


class SearchIn(BaseModel):
    """A search for which parameters to train."""

    model_id: Id
    dataset_id: Id = Field(description="What will be trained on, targets included.")
    eval_dataset_id: Id | None = Field(default=None, description="Held out; for `measured` and `confirm`.")
    target: Name = Field(description="A name from `GET /v1/targets`.")
    recipe: RecipeObject | RecipeText | None = Field(
        default=None, description="Loss, optimizer and batch; its `update` is not read. Default: what suits the model."
    )
    recipe_id: Id | None = Field(default=None, description="Of a recipe that the service keeps, instead of `recipe`.")
    threads: int | None = Field(default=None, ge=1, le=256, description="Default: the target's cores.")
    memory_bytes: int | None = Field(default=None, ge=1, le=2**53, description="What the predicted peak may be.")
    step_ms: float | None = Field(default=None, gt=0, le=1e9, description="What a step may take, as predicted.")
    joules: float | None = Field(default=None, gt=0, le=1e9, description="What a step may take; needs `watts`.")
    watts: float | None = Field(
        default=None, gt=0, le=MOST_WATTS, description="What the target draws while it trains: a run's `mean_watts`."
    )
    method: SearchMethod = SearchMethod.FISHER
    channels: SearchChannels = SearchChannels.ACTIVATION
    prefer: SearchPreference = SearchPreference.ACCURACY
    minutes: float = Field(
        default=30,
        gt=0,
        le=MOST_MINUTES,
        description="What finding contributions may take, and finding learning rates again; `measured` uses it.",
    )
    lr_steps: int = Field(
        default=0,
        ge=0,
        le=MOST_STEPS,
        description="Steps of each short training that finds learning rates; 0: the recipe's stay.",
    )
    tries: bool = Field(
        default=False,
        description="Train what else fits, too, each at its best learning rates, and take the best; needs `lr_steps`.",
    )
    recompute: bool | None = Field(
        default=None,
        description="What fits because forward nodes are computed twice counts, too; default: with `memory_bytes`.",
    )
    micro_batches: bool | None = Field(
        default=None,
        description="What fits because a step takes micro-batches counts, too; default: where that trains the same.",
    )
    confirm: int = Field(
        default=0, ge=0, le=MOST_STEPS, description="Steps of short trainings that compare what was found; 0: none."
    )
    ranks: tuple[Annotated[int, Field(ge=1, le=MOST_RANK)], ...] = Field(
        default=(),
        max_length=MOST_RANKS,
        description="Of low-rank adapters that may be trained beside weights, in their place; with `fisher` only.",
    )
    seed: int = Field(default=0, ge=0, le=2**31 - 1)
    name: Name | None = Field(default=None, description="Of the recipe that is found; default: the model's name.")
    priority: int = Field(default=0, ge=-10, le=10, description="As of builds, which wait in the same queue.")

    @model_validator(mode="after")
    def _fits_together(self) -> "SearchIn":
        if self.recipe is not None and self.recipe_id is not None:
            raise ValueError("give recipe or recipe_id, not both")
        if self.eval_dataset_id is None and (self.method == SearchMethod.MEASURED or self.confirm):
            raise ValueError("measured and confirm need data that were held out: give eval_dataset_id")
        if self.tries and not self.lr_steps:
            raise ValueError("schemes are tried at learning rates that are looked for: give lr_steps")
        if self.recompute and self.memory_bytes is None:
            raise ValueError("nodes are computed twice to keep to a limit of memory: give memory_bytes")
        if self.micro_batches and self.memory_bytes is None:
            raise ValueError("micro-batches keep to a limit of memory: give memory_bytes")
        if self.ranks and self.method != SearchMethod.FISHER:
            raise ValueError("what adapters bring is known by fisher only: leave ranks out, or method")
        if self.joules is not None and self.watts is None:
            raise ValueError("joules of a step need to be known: give watts, what the target draws while it trains")
        return self


class FoundOut(BaseModel):
    """What a search found. Sizes and times are predicted; those of `full` are of training everything."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    peak_bytes: int = Field(ge=0)
    step_ms: float = Field(ge=0)
    gap: float = Field(description="The part of the bound that is missing: 0 for the best, if contributions add.")
    trained_parameters: int = Field(ge=0, description="Numbers that are trained.")
    accuracy: float | None = Field(description="Of short trainings, where `confirm` asked for them.")
    full_peak_bytes: int | None
    full_step_ms: float | None
    full_accuracy: float | None
    joules: float | None = Field(default=None, ge=0, description="Of a step, where `watts` were given.")
    learning_rates: dict[str, float] | None = Field(
        default=None, max_length=1000, description="By group of parameters, where `lr_steps` asked for them."
    )


class SearchOut(BaseModel):
    """A search."""

    id: Id
    model: VersionOut
    dataset: VersionOut
    eval_dataset: VersionOut | None
    target: str
    threads: int
    recipe: dict[str, Any] = Field(description="What it began with; empty: what suits the model.")
    memory_bytes: int | None
    step_ms: float | None
    joules: float | None
    watts: float | None
    method: SearchMethod
    channels: SearchChannels
    prefer: SearchPreference
    minutes: float
    lr_steps: int
    tries: bool
    recompute: bool
    micro_batches: bool | None = Field(description="Null: where it trains the same.")
    confirm: int
    ranks: list[int]
    seed: int
    name: str
    priority: int
    compiler_version: str
    state: BuildState
    progress: ProgressOut | None
    queue_position: int | None = Field(description="1 is next; null unless queued.")
    found: FoundOut | None
    recipe_version: VersionOut | None = Field(description="The recipe that was found; null if it was deleted.")
    result_digest: Digest | None = Field(description="Of all that was found, as JSON; a blob.")
    report_digest: Digest | None = Field(description="Of the page that says why, HTML; a blob.")
    failure: FailureOut | None
    request_id: str | None = Field(description="Of the request that asked for it; logs are searched by it.")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class SearchPage(PageOut[SearchOut]):
    """Searches, newest first."""
