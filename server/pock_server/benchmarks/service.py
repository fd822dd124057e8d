"""Asks for benchmarks, follows their runs, and shows them."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from pock_server.audit.service import Action, changed, gone, made, record
from pock_server.benchmarks.comparison import Comparison, compare, kind_of, machine_of
from pock_server.benchmarks.lifecycle import BENCHMARK_LIFECYCLE
from pock_server.benchmarks.repository import Benchmarks
from pock_server.benchmarks.schemas import (
    BenchmarkIn,
    BenchmarkOut,
    BenchmarkState,
    ComparisonOut,
    MachineDifference,
    RepeatOut,
    VerdictOut,
)
from pock_server.benchmarks.tables import BenchmarkRecord
from pock_server.benchmarks.verdict import Unusable, is_emulated, judge, read_repeats
from pock_server.builds.repository import Builds
from pock_server.builds.schemas import FailureOut
from pock_server.builds.tables import BuildRecord
from pock_server.clock import new_id
from pock_server.db.unit import Unit
from pock_server.devices.features import Feature, require
from pock_server.devices.repository import Devices
from pock_server.events.repository import Events
from pock_server.http.fields import canonical_json
from pock_server.http.problems import Failure, Problem
from pock_server.recipes.repository import Recipes
from pock_server.runs.repository import Runs
from pock_server.runs.schemas import Entry, RunIn, RunState
from pock_server.runs.service import request_run, stop_run
from pock_server.runs.tables import RunRecord
from pock_server.settings import Settings
from pock_server.webhooks.service import announce
from pock_server.webhooks.tables import Event

_TOLD = (
    *("state", "build_id", "build_name", "build_version", "model_name", "recipe_name"),
    *("device_id", "device_name", "target", "threads", "verdict", "failure"),
)
NOTHING_USABLE = 2001
"""The failure code of a device that succeeded, and reported nothing that can be used."""


def request_benchmark(
    unit: Unit, workspace_id: str, order: BenchmarkIn, settings: Settings, now: datetime
) -> BenchmarkRecord:
    """Have a device measure a build; a `Problem` says why it could not."""
    session = unit.session
    if order.baseline_id is not None:
        Benchmarks(session, workspace_id).require(order.baseline_id)
    device = Devices(session, workspace_id).require(order.device_id)
    require(device, Feature.REPEATS)
    row_id = new_id(now)
    run = request_run(unit, workspace_id, _run_of(order, settings), settings, now, part_of=row_id)
    run.bench = {name: getattr(order, name) for name in ("warmup_steps", "repeats", "cool_down_seconds")}
    build, machine = Builds(session, workspace_id).require(order.build_id), machine_of(device.facts)
    recipe = Recipes(session, workspace_id).find(build.recipe_id) if build.recipe_id else None
    row = BenchmarkRecord(
        id=row_id,
        workspace_id=workspace_id,
        created_at=now,
        state=BenchmarkState.QUEUED,
        attempt=0,
        request_id=run.request_id,
        traceparent=run.traceparent,
        run_id=run.id,
        build_id=build.id,
        build_name=build.name,
        build_version=build.version,
        model_name=build.model_name,
        recipe_name=recipe.name if recipe else None,
        device_id=device.id,
        device_name=device.name,
        device_kind=kind_of(machine)[:300],
        target=build.target,
        series=_series(build, recipe.name if recipe else None, kind_of(machine), run.threads),
        threads=run.threads,
        steps=order.steps,
        warmup_steps=order.warmup_steps,
        repeats_wanted=order.repeats,
        cool_down_seconds=order.cool_down_seconds,
        priority=order.priority,
        baseline_id=order.baseline_id,
        machine=machine,
    )
    Benchmarks(session, workspace_id).add(row)
    Events(session, workspace_id).append(row.id, "state", {"state": row.state}, now)
    told = made(build_id=row.build_id, device_id=row.device_id, steps=row.steps, repeats=row.repeats_wanted)
    record(unit, Action.BENCHMARK_REQUEST, row, _name(row), now, told)
    return row


def _run_of(order: BenchmarkIn, settings: Settings) -> RunIn:
    """Its pauses come on top of the time that a run may take."""
    pauses = (order.repeats - 1) * order.cool_down_seconds
    longest = order.deadline_seconds or min(int(settings.run_deadline_seconds) + pauses, 604_800)
    return RunIn(
        build_id=order.build_id,
        device_id=order.device_id,
        dataset_id=order.dataset_id,
        entry=Entry.BENCH,
        steps=order.steps,
        threads=order.threads,
        priority=order.priority,
        deadline_seconds=max(1, longest),
    )


def _series(build: BuildRecord, recipe: str | None, kind: str, threads: int) -> str:
    """Benchmarks of one series measure the same, but for what people changed in model, recipe and compiler."""
    same = [build.model_name, recipe or build.recipe, build.target, kind, threads]
    return hashlib.sha256(canonical_json(same).encode()).hexdigest()


def _name(row: BenchmarkRecord) -> str:
    return f"{row.build_name} on {row.device_name}"[:200]


def follow(unit: Unit, workspace_id: str, row_id: str, now: datetime) -> BenchmarkRecord:
    """Look what became of a benchmark's run, and do as it did; a 409 `Problem` if somebody has done so."""
    row = Benchmarks(unit.session, workspace_id).require(row_id, lock=True)
    if row.state in BENCHMARK_LIFECYCLE.final:
        raise Problem(Failure.STATE_CONFLICT, f"This benchmark is {row.state}.")
    run = Runs(unit.session, workspace_id).find(row.run_id)
    if run is None:
        _fail(unit, row, {"code": NOTHING_USABLE, "detail": "Its run was deleted."}, now)
    elif run.state == RunState.SUCCEEDED:
        _conclude(unit, row, run, now)
    elif run.state == RunState.FAILED:
        _fail(unit, row, run.failure or {"code": NOTHING_USABLE, "detail": "Its run failed."}, now)
    elif run.state == RunState.CANCELLED:
        _end(unit, row, BenchmarkState.CANCELLED, now)
    elif run.state == RunState.RUNNING and row.state == BenchmarkState.QUEUED:
        BENCHMARK_LIFECYCLE.move(unit, row, BenchmarkState.RUNNING, now, started_at=run.started_at)
    elif run.state == RunState.QUEUED and row.state == BenchmarkState.RUNNING:
        BENCHMARK_LIFECYCLE.move(unit, row, BenchmarkState.QUEUED, now, "the device was lost", started_at=None)
    return row


def _conclude(unit: Unit, row: BenchmarkRecord, run: RunRecord, now: datetime) -> None:
    try:
        repeats = read_repeats(run.report, row.repeats_wanted)
    except Unusable as error:
        _fail(unit, row, {"code": NOTHING_USABLE, "detail": str(error)}, now)
        return
    verdict = asdict(judge(repeats, is_emulated(run.report)))
    _end(unit, row, BenchmarkState.SUCCEEDED, now, verdict=verdict, repeats=[asdict(one) for one in repeats])


def _fail(unit: Unit, row: BenchmarkRecord, failure: dict[str, Any], now: datetime) -> None:
    _end(unit, row, BenchmarkState.FAILED, now, failure=failure)


def _end(unit: Unit, row: BenchmarkRecord, state: BenchmarkState, now: datetime, **changes: Any) -> None:
    BENCHMARK_LIFECYCLE.move(unit, row, state, now, finished_at=now, **changes)
    data = {"benchmark_id": row.id, **{name: getattr(row, name) for name in _TOLD}}
    announce(unit, row.workspace_id, Event.BENCHMARK_FINISHED, data, now)


def cancel_benchmark(unit: Unit, workspace_id: str, row_id: str, now: datetime) -> BenchmarkRecord:
    """Cancel a benchmark that is not over, and its run. Repeating is harmless."""
    benchmarks = Benchmarks(unit.session, workspace_id)
    run_id = benchmarks.require(row_id).run_id
    if Runs(unit.session, workspace_id).find(run_id) is not None:
        stop_run(unit, workspace_id, run_id, now)
    row = benchmarks.require(row_id, lock=True)
    if row.state != BenchmarkState.CANCELLED:
        before = row.state
        _end(unit, row, BenchmarkState.CANCELLED, now)
        record(unit, Action.BENCHMARK_CANCEL, row, _name(row), now, changed({"state": before}, {"state": row.state}))
    return row


def delete_benchmark(unit: Unit, workspace_id: str, row_id: str, now: datetime) -> None:
    """Forget a benchmark that is over; its run stays. A 409 `Problem` if it is not over."""
    row = Benchmarks(unit.session, workspace_id).require(row_id, lock=True)
    if row.state not in BENCHMARK_LIFECYCLE.final:
        raise Problem(Failure.STATE_CONFLICT, f"This benchmark is {row.state}; cancel it first.")
    record(unit, Action.BENCHMARK_DELETE, row, _name(row), now, gone(state=row.state, verdict=row.verdict))
    Events(unit.session, workspace_id).forget(row.id)
    unit.session.delete(row)


def compare_with(benchmarks: Benchmarks, row: BenchmarkRecord, other: BenchmarkRecord) -> ComparisonOut:
    """One benchmark beside another; a 409 `Problem` unless both have a verdict."""
    for one in (row, other):
        if one.repeats is None:
            raise Problem(Failure.STATE_CONFLICT, f"Benchmark {one.id} is {one.state}; only succeeded ones compare.")
    return _shown(other.id, compare(_medians(row), _medians(other), row.machine, other.machine))


def _medians(row: BenchmarkRecord) -> list[float]:
    return [float(one["median_ms"]) for one in row.repeats or ()]


def _shown(other_id: str, found: Comparison) -> ComparisonOut:
    differences = [
        MachineDifference(fact=name, this=this, other=other) for name, (this, other) in found.differences.items()
    ]
    return ComparisonOut(
        other_id=other_id,
        ratio=found.ratio,
        interval_low=found.interval_low,
        interval_high=found.interval_high,
        p_value=found.p_value,
        same_machine=not differences,
        differences=differences,
    )


def show(benchmarks: Benchmarks, row: BenchmarkRecord) -> BenchmarkOut:
    """The benchmark as the API shows it."""
    (brief,) = show_briefly([row])
    baseline = benchmarks.find(row.baseline_id) if row.baseline_id else None
    both = baseline is not None and baseline.repeats is not None and row.repeats is not None
    repeats = None if row.repeats is None else [RepeatOut(**one) for one in row.repeats]
    comparison = compare_with(benchmarks, row, baseline) if baseline is not None and both else None
    return brief.model_copy(update={"repeats": repeats, "comparison": comparison})


def show_briefly(rows: Sequence[BenchmarkRecord]) -> list[BenchmarkOut]:
    """Benchmarks as lists show them."""
    return [_describe(row) for row in rows]


def _describe(row: BenchmarkRecord) -> BenchmarkOut:
    same = BenchmarkOut.model_fields.keys() - {"state", "verdict", "repeats", "comparison", "failure"}
    return BenchmarkOut(
        **{name: getattr(row, name) for name in same},
        state=BenchmarkState(row.state),
        verdict=VerdictOut(**row.verdict) if row.verdict else None,
        repeats=None,
        comparison=None,
        failure=FailureOut(**row.failure) if row.failure else None,
    )
