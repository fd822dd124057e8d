"""Chooses how contractions are computed by measuring: what the store knows is taken, the rest is measured on this
machine when it is the target, within a time limit; candidates count only if they compute what the reference says."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..codegen.backend import Backend
from ..codegen.folder_cache import default_folder, workspace
from ..codegen.tunable import Candidate, Choice, Measurement, Measurer, Run, RunLimits, Trial
from ..errors import PockError, nearest
from ..progress import Progress, quiet
from ..targets import Target
from . import reference
from .candidates import trial_of, wanted
from .packing import can_be_tried
from .store import Result, TuningStore
from .workload import Workload, key_of

MEASURING = ("fast", "full")
"""Modes that measure on this machine."""
MODES = ("off", "known", *MEASURING)
"""`off` asks nobody but the model; `known` takes what the store has, and measures nothing."""
MARGIN = 0.02
"""A candidate must be this much quicker than the model's choice to replace it: less is noise."""
UNSTEADY = 1.5
"""A median this many times the least time says that the machine was busy with something else."""
SHOWN, SHOWN_NAMES = 20, 3
"""Unknown workloads that are listed, and layers of each."""
BATCH = 24
"""Workloads whose candidates make one measuring program."""


@dataclass(frozen=True)
class Effort:
    """What a mode may spend: seconds in all, candidates of each workload, and how often they are run."""

    seconds: float
    candidates: int
    wide: bool
    rounds: int
    budget_ms: float


EFFORTS = {"fast": Effort(50.0, 4, False, 15, 120.0), "full": Effort(270.0, 14, True, 31, 500.0)}


@dataclass(frozen=True)
class Tuned:
    """What became of one workload. `source` is `cache`, `measured`, `verified` (the choice of a workload with the same
    contraction, checked on this one) or `model`; milliseconds only where it was measured; `by` as of `Result`."""

    workload: Workload
    source: str
    choice: Choice | None
    ms: float | None = None
    model_ms: float | None = None
    tried: int = 0
    rejected: tuple[str, ...] = ()
    unsteady: bool = False
    by: str = ""

    def to_plain(self) -> dict[str, Any]:
        """For the manifest: plain values, deterministic given the same store."""
        return {
            "layers": list(self.workload.names),
            "family": self.workload.family,
            "source": "measured" if self.source == "cache" else self.source,
            "choice": None if self.choice is None else self.choice.to_plain(),
            "ms": self.ms,
            "model_ms": self.model_ms,
        }


@dataclass(frozen=True)
class Tuning:
    """The outcome for a whole model. `why_not` says why nothing was measured, where nothing could be."""

    mode: str = "off"
    workloads: tuple[Tuned, ...] = ()
    seconds: float = 0.0
    why_not: str = ""

    @property
    def picks(self) -> dict[str, Choice]:
        """Choices by `identity` of the nodes, for the backend."""
        return {one.workload.identity: one.choice for one in self.workloads if one.choice is not None}

    def count(self, source: str) -> int:
        return sum(one.source == source for one in self.workloads)

    def summary(self) -> dict[str, Any]:
        """What does not depend on whether the store had it: for the manifest."""
        if self.mode == "off":
            return {"tuned": "off"}
        known = [one.to_plain() for one in self.workloads if one.source != "model"]
        return {"tuned": self.mode, "schedules_by_model": self.count("model"), "schedules": known}

    def statistics(self) -> dict[str, Any]:
        """How the result came about this time."""
        if self.mode == "off":
            return {}
        rejected = [reason for one in self.workloads for reason in one.rejected]
        return {
            "tuning": {
                "workloads": len(self.workloads),
                "hits": self.count("cache"),
                "misses": len(self.workloads) - self.count("cache"),
                "measured": self.count("measured"),
                "verified": self.count("verified"),
                "by_model": self.count("model"),
                "rejected": rejected,
                "unsteady": sum(one.unsteady for one in self.workloads),
                "seconds": round(self.seconds, 3),
                "why_not": self.why_not,
                "known_by": dict(Counter(one.by or "here" for one in self.workloads if one.source == "cache")),
                "to_try": sum(one.source == "model" and can_be_tried(one.workload) for one in self.workloads),
                "unknown": self._unknown(),
            }
        }

    def _unknown(self) -> list[dict[str, Any]]:
        """What was left to the model: the workloads that take longest first, with their part of all contractions' time
        as the model expects it."""
        total = sum(one.workload.weight for one in self.workloads) or 1.0
        left = [one.workload for one in self.workloads if one.source == "model"]
        return [
            {
                "key": key_of(workload.inputs),
                "family": workload.family,
                "layers": list(workload.names[:SHOWN_NAMES]),
                "share": round(workload.weight / total, 4),
            }
            for workload in left[:SHOWN]
        ]


def check_mode(mode: str) -> str:
    """The mode, if there is such a one. Raises PockError."""
    if mode not in MODES:
        raise PockError(f"there is no tuning '{mode}'{nearest(mode, MODES)}")
    return mode


def tune(
    workloads: Sequence[Workload],
    mode: str,
    store: TuningStore,
    cache: Path | None = None,
    progress: Progress = quiet,
    seconds: float | None = None,
) -> Tuning:
    """Choose for every workload; all have one backend, target and number of threads (`workloads_of`). `mode` is one of
    MODES but `off`, `seconds` its limit unless the mode's own. Raises ToolchainError."""
    if not workloads:
        return Tuning(mode)
    first = workloads[0]
    session = _Session(first.backend, first.target, first.threads, mode, store, cache, progress)
    if seconds is not None:
        session.deadline = session.start + seconds
    return session.run(workloads)


@dataclass
class _Session:
    backend: Backend
    target: Target
    threads: int
    mode: str
    store: TuningStore
    cache: Path | None
    progress: Progress
    start: float = field(default_factory=time.monotonic)
    done: dict[Workload, Tuned] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.effort = EFFORTS["fast" if self.mode == "known" else self.mode]
        self.deadline = self.start + self.effort.seconds

    def run(self, workloads: Sequence[Workload]) -> Tuning:
        for workload in workloads:
            self._look_up(workload)
        missing = [workload for workload in workloads if workload not in self.done]
        if self.mode == "known":
            return self._outcome(workloads, "nothing else was known, so the model chose the rest" if missing else "")
        why_not = ""
        here = missing and self.backend.runs_here(self.target)
        measurer = self.backend.measurer(self.target, self.threads, self.cache) if here else None
        if measurer is not None:
            self._measure_all(missing, measurer, len(workloads))
        elif missing:
            why_not = f"{self.target.name} is another machine than this one, so the model chose"
        found = self._outcome(workloads, why_not)
        if not why_not and any(one.source == "model" and not one.tried for one in found.workloads):
            return replace(found, why_not="the time limit was reached, so the model chose the rest")
        return found

    def _outcome(self, workloads: Sequence[Workload], why_not: str) -> Tuning:
        found = tuple(self.done.get(workload, Tuned(workload, "model", None)) for workload in workloads)
        return Tuning(self.mode, found, time.monotonic() - self.start, why_not)

    def _look_up(self, workload: Workload) -> None:
        result = self.store.get(workload.inputs)
        if result is None or (self.mode == "full" and result.mode != "full"):
            return
        for candidate in workload.tunable.candidates(wide=True):
            if candidate.choice.to_plain() == result.choice:
                times = (result.ms, result.model_ms, result.tried)
                self.done[workload] = Tuned(workload, "cache", candidate.choice, *times, by=result.by)
                return

    def _measure_all(self, missing: list[Workload], measurer: Measurer, total: int) -> None:
        """The contractions that differ first; in fast mode, others with the same contraction take over its choice."""
        leaders = {workload.anchor: workload for workload in self.done}
        for workload in missing:
            leaders.setdefault(workload.anchor, workload)
        first = [one for one in missing if self.mode == "full" or leaders[one.anchor] is one]
        rest = [workload for workload in missing if workload not in first]
        with workspace(self.cache or default_folder()) as place:
            for start in range(0, len(first), BATCH):
                batch = [(one, self._wanted(one, measurer)) for one in first[start : start + BATCH]]
                self._measure_batch(batch, measurer, place, total, "measured")
            followers = [(one, self._inherited(one, leaders[one.anchor])) for one in rest]
            followers = [(one, candidates) for one, candidates in followers if candidates]
            for start in range(0, len(followers), BATCH):
                self._measure_batch(followers[start : start + BATCH], measurer, place, total, "verified")

    def _wanted(self, workload: Workload, measurer: Measurer) -> list[Candidate]:
        return wanted(workload, self.store, self.effort.candidates, self.effort.wide, measurer.has, self.cache)

    def _inherited(self, workload: Workload, leader: Workload) -> list[Candidate]:
        """The choice of the workload with the same contraction, unless it is the model's, which needs no check."""
        found = self.done.get(leader)
        if found is None or found.choice is None:
            return []
        space = workload.tunable.candidates()
        if found.choice == space[0].choice:
            self._settle(Tuned(workload, "verified", found.choice))
            return []
        return [one for one in space if one.choice == found.choice]

    def _measure_batch(
        self,
        batch: Sequence[tuple[Workload, list[Candidate]]],
        measurer: Measurer,
        place: Path,
        total: int,
        source: str,
    ) -> None:
        if time.monotonic() > self.deadline:
            return
        trials = [trial_of(workload, candidates) for workload, candidates in batch]
        measurement = measurer.build([trial for trial, _ in trials], place)
        for index, (workload, (trial, candidates)) in enumerate(zip(dict(batch), trials, strict=True)):
            if time.monotonic() > self.deadline:
                return
            self._measure_one(workload, measurement, index, trial, candidates, source)
            self.progress("tune", len(self.done), total)

    def _measure_one(
        self,
        workload: Workload,
        measurement: Measurement,
        index: int,
        trial: Trial,
        candidates: list[Candidate],
        source: str,
    ) -> None:
        inputs = reference.draw(workload.node)
        right = reference.expected(workload.node, inputs)
        timed = source == "measured"
        evicted = 2 * self.target.l2_bytes
        limits = RunLimits(self.effort.rounds if timed else 0, self.effort.budget_ms, evicted)
        runs = measurement.run(index, inputs, limits)
        faults = [_fault(trial, run, right) for run in runs]
        rejected = tuple(
            f"{workload.family} ({candidate.choice.describe()}): {fault}"
            for candidate, fault in zip(candidates, faults, strict=True)
            if fault is not None
        )
        sound = [number for number, fault in enumerate(faults) if fault is None]
        if not sound:
            self.done[workload] = Tuned(workload, "model", None, tried=len(runs), rejected=rejected)
        elif not timed:
            self._settle(Tuned(workload, source, candidates[sound[0]].choice, tried=len(runs)))
        else:
            self._decide(workload, candidates, runs, sound, rejected)

    def _decide(
        self,
        workload: Workload,
        candidates: list[Candidate],
        runs: list[Run],
        sound: list[int],
        rejected: tuple[str, ...],
    ) -> None:
        """The sound candidate of the least median, or the model's unless both its median and its least time are
        beaten: a median alone may owe to what else the machine does."""
        medians = {number: statistics.median(runs[number].ms) for number in sound}
        better = [
            number
            for number in sound
            if 0 not in medians
            or (medians[number] < medians[0] * (1 - MARGIN) and min(runs[number].ms) < min(runs[0].ms))
        ]
        best = min(better, key=medians.__getitem__, default=0)
        ms, model_ms = round(medians[best], 6), round(medians.get(0, medians[best]), 6)
        unsteady = medians[best] > UNSTEADY * min(runs[best].ms)
        choice = candidates[best].choice
        self._settle(Tuned(workload, "measured", choice, ms, model_ms, len(runs), rejected, unsteady))

    def _settle(self, found: Tuned) -> None:
        """Take a choice that was measured or checked, and keep it for later builds."""
        self.done[found.workload] = found
        plain = None if found.choice is None else found.choice.to_plain()
        result = Result(plain, found.ms, found.model_ms, self.mode, found.tried, len(found.rejected))
        self.store.put(found.workload.inputs, result)


def _fault(trial: Trial, run: Run, wanted: list[Any]) -> str | None:
    """Why a candidate does not count, or None."""
    if run.failure is not None:
        return run.failure
    if run.overrun:
        return "it writes beyond its memory"
    assert run.output is not None
    return reference.differs(trial.node, run.output.read_bytes(), wanted, trial.output_offsets)
