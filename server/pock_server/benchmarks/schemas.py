"""Bodies of the benchmark calls."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field

from pock_server.benchmarks.verdict import MAX_REPEATS, Reason
from pock_server.builds.schemas import FailureOut
from pock_server.http.fields import Id
from pock_server.http.pages import PageOut


class BenchmarkState(StrEnum):
    """Where a benchmark stands."""

    QUEUED = "queued"
    """Its run waits for the device."""
    RUNNING = "running"
    """The device measures."""
    SUCCEEDED = "succeeded"
    """There is a verdict."""
    FAILED = "failed"
    """Its run failed, or the device reported nothing that can be used."""
    CANCELLED = "cancelled"
    """Somebody cancelled it, or its run."""


class BenchmarkIn(BaseModel):
    """A build to measure on a device."""

    build_id: Id
    device_id: Id
    dataset_id: Id | None = Field(default=None, description="Default: made-up numbers.")
    steps: int = Field(default=50, ge=1, le=1_000_000, description="Of each repeat.")
    warmup_steps: int = Field(default=3, ge=0, le=100_000, description="Steps of each repeat that do not count.")
    repeats: int = Field(default=7, ge=1, le=MAX_REPEATS, description="Fewer than 6 are never stable.")
    cool_down_seconds: int = Field(default=0, ge=0, le=3600, description="Longest pause between two repeats.")
    threads: int | None = Field(default=None, ge=1, le=256, description="Default: those of the build.")
    priority: int = Field(default=0, ge=-100, le=100)
    deadline_seconds: int | None = Field(default=None, ge=1, le=604_800, description="Of all repeats and pauses.")
    baseline_id: Id | None = Field(default=None, description="A benchmark to compare this one with.")


class VerdictOut(BaseModel):
    """Whether the measurement can be trusted. Milliseconds of a step."""

    stable: bool
    reasons: list[Reason] = Field(description="Why not.")
    median_ms: float = Field(description="Of the repeats' medians.")
    interval_low: float | None = Field(description="95 % of the median; null for fewer than 6 repeats.")
    interval_high: float | None
    repeats: int


class RepeatOut(BaseModel):
    """One process: milliseconds of a step, and how the device was. Null is unknown."""

    median_ms: float
    p10_ms: float | None
    p90_ms: float | None
    started_at: str | None = Field(description="By the device's clock.")
    temperature_before_c: float | None
    temperature_after_c: float | None
    frequency_mhz: float | None = Field(description="The highest during the repeat.")
    throttled: bool | None


class MachineDifference(BaseModel):
    """A fact that two machines do not share."""

    fact: str
    this: Any = Field(description="Null is unknown.")
    other: Any


class ComparisonOut(BaseModel):
    """This benchmark beside another one."""

    other_id: Id
    ratio: float = Field(description="Of the medians: above 1, this one is slower.")
    interval_low: float | None = Field(description="95 % of the ratio; null for very few repeats.")
    interval_high: float | None
    p_value: float = Field(description="Of the rank test of the repeats' medians (Mann and Whitney, exact, two-sided).")
    same_machine: bool
    differences: list[MachineDifference]


class BenchmarkOut(BaseModel):
    """A benchmark."""

    id: Id
    state: BenchmarkState
    run_id: Id
    build_id: Id
    build_name: str
    build_version: int
    model_name: str
    recipe_name: str | None = Field(description="Null for a recipe without a name.")
    device_id: Id
    device_name: str
    device_kind: str = Field(description="Its processor, and how many.")
    target: str
    threads: int
    steps: int
    warmup_steps: int
    repeats_wanted: int
    cool_down_seconds: int
    priority: int
    baseline_id: Id | None
    verdict: VerdictOut | None
    repeats: list[RepeatOut] | None = Field(description="Null in lists, and until it is over.")
    comparison: ComparisonOut | None = Field(description="With the baseline; null in lists, and where there is none.")
    failure: FailureOut | None
    request_id: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class BenchmarkPage(PageOut[BenchmarkOut]):
    """Benchmarks, newest first."""
