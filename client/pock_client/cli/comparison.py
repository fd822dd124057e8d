"""Runs side by side: what each measured, and how many times as much as the first.

Knows reports, not where they come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .console import milliseconds, number, reference_of_run, share, short, show_table, size

_EMPTY = "there is nothing to compare"


@dataclass(frozen=True)
class Measured:
    """What a run measured. Times in milliseconds; None is unknown."""

    id: str
    build: str
    device: str
    target: str
    entry: str
    state: str
    accuracy: float | None
    """A part of one, of the evaluation after training."""
    loss: float | None
    """Of that evaluation, else of the last step."""
    step_ms: float | None
    """The median."""
    step_ms_p10: float | None
    step_ms_p90: float | None
    stable: bool | None
    """Whether the confidence interval of the median is within 5 %."""
    joules_per_step: float | None
    cold_start_ms: float | None
    peak_rss_bytes: int | None
    planned_bytes: int | None
    """What the compiler predicted for the peak."""


RATIOS = ("step_ms", "joules_per_step", "cold_start_ms", "peak_rss_bytes", "planned_bytes")
"""What is compared with the first run by division."""


def measured(run: Any) -> Measured:
    """What a run's report says."""
    report = run.report
    main = None if report is None else (report.train or report.eval_after or report.eval_before)
    after = None if report is None else (report.eval_after or report.train)
    times = None if main is None else main.step_ms
    losses = None if after is None or not after.loss else after.loss
    return Measured(
        id=run.id,
        build=reference_of_run(run),
        device=run.device_name,
        target=run.target,
        entry=str(run.entry),
        state=str(run.state),
        accuracy=None if after is None else after.accuracy,
        loss=None if losses is None else losses[-1],
        step_ms=None if times is None else times.median,
        step_ms_p10=None if times is None else times.p10,
        step_ms_p90=None if times is None else times.p90,
        stable=None if main is None or main.stability is None else main.stability.stable,
        joules_per_step=None if main is None or main.energy is None else main.energy.joules_per_step,
        cold_start_ms=None if main is None else main.cold_start_ms,
        peak_rss_bytes=None if main is None else main.peak_rss_bytes,
        planned_bytes=None if main is None else main.predicted_peak_bytes,
    )


def ratios(one: Measured, first: Measured) -> dict[str, float | None]:
    """How many times as much as the first, by the name of what was measured."""
    return {name: _ratio(getattr(one, name), getattr(first, name)) for name in RATIOS}


def compared(runs: Sequence[Measured]) -> list[dict[str, Any]]:
    """For programs: each run with its ratios to the first."""
    return [{**asdict(one), "ratios": ratios(one, runs[0])} for one in runs]


def show_comparison(runs: Sequence[Measured]) -> None:
    """For a person: a row for each run."""
    titles = ("run", "build", "device", "target", "accuracy", "loss", "step", "p10 – p90", "cold start")
    with_energy = any(one.joules_per_step is not None for one in runs)  # few devices measure it
    rows = [_row(one, ratios(one, runs[0]), first=one is runs[0], with_energy=with_energy) for one in runs]
    show_table((*titles, "peak memory", "planned", *(("energy a step",) if with_energy else ())), rows, _EMPTY)


def _row(one: Measured, times: dict[str, float | None], *, first: bool, with_energy: bool) -> tuple[str, ...]:
    def with_ratio(text: str, name: str) -> str:
        ratio = times[name]
        return text if first or ratio is None else f"{text} ({ratio:.2f}×)"

    spread = "–" if one.step_ms_p10 is None else f"{number(one.step_ms_p10)} – {number(one.step_ms_p90)}"
    spread += "" if one.stable is not False else " (unstable)"
    return (
        short(one.id),
        one.build,
        one.device if one.state == "succeeded" else f"{one.device} ({one.state})",
        one.target,
        share(one.accuracy),
        number(one.loss),
        with_ratio(milliseconds(one.step_ms), "step_ms"),
        spread,
        with_ratio(milliseconds(one.cold_start_ms), "cold_start_ms"),
        with_ratio(size(one.peak_rss_bytes), "peak_rss_bytes"),
        with_ratio(size(one.planned_bytes), "planned_bytes"),
        *((with_ratio(_joules(one.joules_per_step), "joules_per_step"),) if with_energy else ()),
    )


def _joules(value: float | None) -> str:
    return "–" if value is None else f"{number(value)} J"


def _ratio(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else value / base
