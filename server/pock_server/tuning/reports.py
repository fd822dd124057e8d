"""What a device says of a pack of trials, and whether that can be: numbers from devices may be absurd, or lies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from pock_server.runs.tables import RunRecord
from pock_server.tuning.votes import Timed, timed

_LONGEST_MS = 1e7
_SLACK_SECONDS = 10.0
"""Clocks of the service and the device are not one."""


class Unbelievable(Exception):
    """The report is none, or says what cannot be. `lies` where no honest device could say it."""

    def __init__(self, reason: str, lies: bool = False) -> None:
        super().__init__(reason)
        self.lies = lies


class _Trial(BaseModel):
    model_config = ConfigDict(extra="ignore")

    workload: int = Field(ge=0, le=1000)
    candidate: int = Field(ge=0, le=1000)
    wrong: int = Field(ge=0, le=2**53)
    overrun: bool
    ms: list[Annotated[float, Field(gt=0, le=_LONGEST_MS, allow_inf_nan=False)]] = Field(min_length=1, max_length=1000)


_TRIALS = TypeAdapter(Annotated[list[_Trial], Field(max_length=2000)])


@dataclass(frozen=True)
class Told:
    """A believable report: for each workload its candidates, and how it was measured."""

    workloads: tuple[tuple[Timed, ...], ...]
    provenance: dict[str, Any]


def read_report(run: RunRecord, pack: Sequence[Mapping[str, Any]]) -> Told:
    """What a run that succeeded says of a pack's workloads, in their order. Raises `Unbelievable`."""
    report = (run.report or {}).get("train")
    listed = report.get("trials") if isinstance(report, dict) else None
    try:
        trials = _TRIALS.validate_python(listed)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in ("trials", *first["loc"]))
        raise Unbelievable(f"the report's {where}: {first['msg']}", lies=isinstance(listed, list)) from None
    found = {(trial.workload, trial.candidate): trial for trial in trials}
    places = {(index, number) for index, one in enumerate(pack) for number in range(one["candidates"])}
    if found.keys() != places or len(trials) != len(places):
        raise Unbelievable("the report tells of other trials than there were", lies=True)
    _check_times(run, trials, pack)
    told = tuple(
        tuple(
            timed(found[index, number].ms, found[index, number].wrong > 0 or found[index, number].overrun)
            for number in range(one["candidates"])
        )
        for index, one in enumerate(pack)
    )
    return Told(told, _provenance(run))


def _check_times(run: RunRecord, trials: Sequence[_Trial], pack: Sequence[Mapping[str, Any]]) -> None:
    for trial in trials:
        least = float(pack[trial.workload]["least_ms"])
        if min(trial.ms) < least:
            detail = f"a candidate took {min(trial.ms):.3g} ms, and no processor needs less than {least:.3g} ms"
            raise Unbelievable(detail, lies=True)
    seconds = sum(sum(trial.ms) for trial in trials) / 1e3
    took = duration(run.started_at, run.finished_at)
    if seconds > took + _SLACK_SECONDS:
        raise Unbelievable(f"its candidates took {seconds:.0f} s in all, and the run {took:.0f} s", lies=True)


def duration(started: datetime | None, finished: datetime | None) -> float:
    """Seconds of a run that is over; 0 of one that never began."""
    return (finished - started).total_seconds() if started and finished else 0.0


def _provenance(run: RunRecord) -> dict[str, Any]:
    """How it was measured, as far as the device says; what is no number is left out."""
    health = (run.report or {}).get("health")
    health = health if isinstance(health, dict) else {}
    stability = ((run.report or {}).get("train") or {}).get("stability")
    stability = stability if isinstance(stability, dict) else {}
    found = {
        "max_temperature_c": health.get("max_temperature_c"),
        "min_frequency_mhz": health.get("min_frequency_mhz"),
        "max_frequency_mhz": health.get("max_frequency_mhz"),
        "interval": stability.get("relative_interval"),
    }
    numbers = {name: value for name, value in found.items() if isinstance(value, int | float)}
    flags = {name: health[name] is True for name in ("throttled", "emulated") if health.get(name) is not None}
    return {**numbers, **flags, "seconds": round(duration(run.started_at, run.finished_at), 3)}
