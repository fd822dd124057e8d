"""A benchmark: the same steps several times, each time in a process of their own, with pauses in between.

A repeat that has ended is on disk with its events, so an agent that was killed goes on with the next one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pock_agent.device.health import HealthLog
from pock_agent.disk.files import read_json, write_json
from pock_agent.errors import AgentError
from pock_agent.job.control import JobControl
from pock_agent.job.phase_events import PhaseEvents
from pock_agent.job.report import step_times, thinned, without_first
from pock_agent.job.spool import EventSpool
from pock_agent.job.stability import judge
from pock_agent.place.place import Place
from pock_agent.settings import Settings
from pock_agent.trust.manifest import Manifest
from pock_agent.values import JsonObject, format_time

COOL = 1.0
"""Degrees Celsius above the temperature of the beginning at which the next repeat may begin."""
_READINGS = ("temperature_c", "frequency_mhz", "throttled")
_EXTREMES = ("max_temperature_c", "min_frequency_mhz", "max_frequency_mhz", "throttled")

Once = Callable[[Callable[[JsonObject], None]], JsonObject]
"""Runs the executable's benchmark once, hands its events on, and returns its report."""


@dataclass(frozen=True)
class Plan:
    """How often, and with which pauses. Of each repeat, `warmup_steps` are made and not counted.

    With `until_stable`, the first repeat whose steps are stable is the last.
    """

    steps: int
    warmup_steps: int
    repeats: int
    cool_down_seconds: float
    until_stable: bool


def plan_of(manifest: Manifest, settings: Settings) -> Plan:
    """What the manifest asks for; one that says nothing of repeats means few, until one is stable."""
    steps, ordered = manifest.run.steps, manifest.bench
    if ordered is None:
        return Plan(steps, 0, settings.bench_tries, 0.0, until_stable=True)
    return Plan(steps, ordered.warmup_steps, ordered.repeats, float(ordered.cool_down_seconds), until_stable=False)


@dataclass(frozen=True)
class Surroundings:
    """Where the repeats lie, where their events go and which of these is the first, who may stop them, and what runs
    them."""

    folder: Path
    spool: EventSpool
    first_event: int
    control: JobControl
    settings: Settings
    place: Place


class Benchmark:
    """The repeats of one job, those of before a restart among them."""

    def __init__(self, plan: Plan, surroundings: Surroundings) -> None:
        self._plan, self._around = plan, surroundings

    def carry_out(self, once: Once) -> JsonObject:
        """Make the repeats that are missing; the report of the last or, of a wanted number, of the one in the middle,
        with what each of them measured under `repeats`."""
        done = self._finished()
        while not self._enough(done):
            waited = self._cool_down(done)
            self._repeat(done, waited, once)
            done = self._finished()
        chosen = len(done) - 1 if self._plan.until_stable else _middle([one["repeat"]["median_ms"] for one in done])
        stability = {**done[chosen]["stability"], "tries": len(done)}
        report = _read(self._report(chosen)) or {}
        return {**report, "stability": stability, "repeats": [one["repeat"] for one in done]}

    def _enough(self, done: Sequence[JsonObject]) -> bool:
        if done and self._plan.until_stable and done[-1]["stability"]["stable"]:
            return True
        return len(done) >= self._plan.repeats

    def _finished(self) -> list[JsonObject]:
        found: list[JsonObject] = []
        while (record := _read(self._record(len(found)))) is not None:
            found.append(record)
        return found

    def _cool_down(self, done: Sequence[JsonObject]) -> float:
        """Wait until the device is as cool as it began, or, where it cannot say, for the whole time; the seconds."""
        if not done or not self._plan.cool_down_seconds:
            return 0.0
        wanted, reader = done[0]["repeat"]["before"]["temperature_c"], self._around.place.health()
        begun = time.monotonic()
        while (left := begun + self._plan.cool_down_seconds - time.monotonic()) > 0:
            now = reader.sample().temperature_c
            if wanted is not None and now is not None and now <= wanted + COOL:
                break
            self._around.control.wait(min(left, self._around.settings.cool_down_look_seconds))
        return round(time.monotonic() - begun, 3)

    def _repeat(self, done: Sequence[JsonObject], waited: float, once: Once) -> None:
        settings, number = self._around.settings, len(done)
        first = min(done[-1]["next_event"], len(self._around.spool)) if done else self._around.first_event
        events = PhaseEvents(self._around.spool, first)
        started_at = time.time()
        health = HealthLog(self._around.place.health(), settings.repeat_health_seconds, settings.health_samples)
        try:
            report = once(lambda event: self._pass_on(event, number, events))
        finally:
            felt = health.stop()
        report = without_first(report, self._plan.warmup_steps)
        write_json(self._report(number), thinned(report))
        repeat = {
            "started_at": format_time(started_at),
            "waited_seconds": waited,
            **_times(report),
            **{moment: {name: felt[moment][name] for name in _READINGS} for moment in ("before", "after")},
            **{name: felt[name] for name in _EXTREMES},
        }
        stability = asdict(judge(step_times(report), settings.bench_interval))
        written = {"repeat": repeat, "stability": stability, "next_event": len(self._around.spool)}
        write_json(self._record(number), written)

    def _pass_on(self, event: JsonObject, number: int, events: PhaseEvents) -> None:
        """Steps are counted on from repeat to repeat, without those of the warm-up."""
        step = event.get("step")
        if event["event"] == "step" and isinstance(step, int):
            if step <= self._plan.warmup_steps:
                return
            before = 0 if self._plan.until_stable else number * self._plan.steps
            event = {**event, "step": step - self._plan.warmup_steps + before}
        events.append(event)

    def _record(self, number: int) -> Path:
        return self._around.folder / f"repeat-{number}.json"

    def _report(self, number: int) -> Path:
        return self._around.folder / f"repeat-{number}-report.json"


def _read(path: Path) -> JsonObject | None:
    """What was stored; None where that is damaged, too: then it is measured again."""
    try:
        return read_json(path)
    except AgentError:
        return None


def _times(report: JsonObject) -> JsonObject:
    times: Any = report.get("step_ms")
    told = times if isinstance(times, dict) else {}
    found: JsonObject = {f"{name}_ms": told.get(name) for name in ("median", "p10", "p90")}
    energy: Any = report.get("energy")
    joules = energy.get("joules_per_step") if isinstance(energy, dict) else None
    return {**found, "samples": len(step_times(report)), "joules_per_step": joules}


def _middle(medians: Sequence[float | None]) -> int:
    """Where the median of these is, the lower of two; those that are not known count as the largest."""
    known = [float("inf") if median is None else median for median in medians]
    return sorted(range(len(known)), key=known.__getitem__)[(len(known) - 1) // 2]
