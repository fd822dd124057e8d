"""Reports of runs: what the executable and the agent measured. Devices and later versions may add fields."""

from typing import Annotated, Any, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from pock_server.artifacts.schemas import Phase
from pock_server.datasets.held_out import HeldOutReport


def _known(phase: object) -> object:
    """What a device sends in this place is no reason to refuse its report."""
    return phase if phase in get_args(Phase) else None


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
    phase: Annotated[Phase | None, BeforeValidator(_known)] = Field(
        default=None, description="The part of the step to which its node belongs, by the plan."
    )


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
    covers: str | None = Field(default=None, description="board, processor or GPU")


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
    ended: str | None = Field(default=None, description="What ended the training: steps, epochs or patience.")
    held_out: HeldOutReport | None = None
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
