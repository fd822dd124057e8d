"""What devices report: the executable's lines as they come, and the result. Every write carries the lease's fence."""

import itertools
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import ValidationError
from sqlalchemy import select

from pock_server.db.unit import Unit
from pock_server.devices.told import told_number
from pock_server.events.repository import Events
from pock_server.http.problems import Failure, Problem
from pock_server.runs.leases import clear_device, fail
from pock_server.runs.lifecycle import HELD, RUN_LIFECYCLE
from pock_server.runs.reporting.log import LOGGED, MOST_ROWS, told_lines
from pock_server.runs.reporting.schemas import RunReport
from pock_server.runs.schemas import EventsIn, ResultIn, RunState
from pock_server.runs.tables import RunRecord, RunStepRecord
from pock_server.runs.weights import take_trained

_CRASHED = 2001
_LARGEST = 1e300
_EVALUATIONS = frozenset({"eval_before", "eval_after", "eval"})


def take_events(unit: Unit, run: RunRecord, order: EventsIn, now: datetime) -> int:
    """Store events not seen before; the number of the next one. Events of a run that is over are dropped.

    A gap is accepted: a lost measurement is no reason to lose the rest.
    """
    fresh = order.events[max(0, run.next_seq - order.first_seq) :]
    run.next_seq = max(run.next_seq, order.first_seq + len(order.events))
    if run.state not in HELD:
        return run.next_seq
    for kind, group in itertools.groupby(fresh, _kind):
        if kind == "step":
            _take_steps(unit, run, list(group), now)
        elif kind == "eval":
            for event in group:
                _take_evaluation(unit, run, event, now)
        elif kind in LOGGED:
            _take_lines(unit, run, list(group), now)
    return run.next_seq


def _kind(event: dict[str, Any]) -> Any:
    """Steps of an evaluation are of no kind that is kept: only its result is."""
    kind = event.get("event")
    return None if kind == "step" and _phase(event) else kind


def _phase(event: dict[str, Any]) -> str | None:
    """The evaluation that the event is part of."""
    phase = event.get("phase")
    return phase if isinstance(phase, str) and phase in _EVALUATIONS else None


def _take_steps(unit: Unit, run: RunRecord, events: Sequence[dict[str, Any]], now: datetime) -> None:
    numbered = [(step, event) for event in events if (step := _step_number(event)) is not None]
    if not numbered:
        return
    seen = _known_steps(unit, run, min(step for step, _ in numbered), max(step for step, _ in numbered))
    items: list[dict[str, Any]] = []
    for step, event in numbered:
        if step in seen:
            continue
        seen.add(step)
        item = {"step": step, "loss": _number(event.get("loss")), "ms": _number(event.get("ms"))}
        items.append(item)
        unit.session.add(RunStepRecord(run_id=run.id, fence=run.fence, **item))
    if not items:
        return
    run.progress = {
        "step": items[-1]["step"],
        "steps": run.steps * (run.bench or {}).get("repeats", 1),
        "loss": items[-1]["loss"],
    }
    numbers = [item["step"] for item in items]
    told = {"fence": run.fence, "first": min(numbers), "last": max(numbers)}
    Events(unit.session, run.workspace_id).append(run.id, "steps", told, now)
    unit.announce(f"run:{run.id}")


def _step_number(event: dict[str, Any]) -> int | None:
    step = event.get("step")
    return step if type(step) is int and 0 <= step < 2**31 else None


def _known_steps(unit: Unit, run: RunRecord, first: int, last: int) -> set[int]:
    query = select(RunStepRecord.step).where(RunStepRecord.run_id == run.id, RunStepRecord.fence == run.fence)
    return set(unit.session.scalars(query.where(RunStepRecord.step.between(first, last))))


def _take_evaluation(unit: Unit, run: RunRecord, event: dict[str, Any], now: datetime) -> None:
    data: dict[str, Any] = {key: _number(event.get(key)) for key in ("samples", "loss", "accuracy")}
    data |= {key: _number(event[key]) for key in ("step", "epoch", "perplexity") if key in event}
    data["phase"] = _phase(event) or "eval"
    Events(unit.session, run.workspace_id).append(run.id, "eval", data, now)
    unit.announce(f"run:{run.id}")


def _take_lines(unit: Unit, run: RunRecord, told: Sequence[dict[str, Any]], now: datetime) -> None:
    events = Events(unit.session, run.workspace_id)
    if events.count(run.id, "log") < MOST_ROWS:
        events.append(run.id, "log", {"text": told_lines(told)}, now)
        unit.announce(f"run:{run.id}")


def _number(value: Any) -> float | None:
    """None for a loss that diverged: JSON cannot say it."""
    return told_number(value, -_LARGEST, _LARGEST)


def take_result(unit: Unit, run: RunRecord, order: ResultIn, now: datetime) -> RunState:
    """End the run; repeating it, or reporting a run that was cancelled meanwhile, changes nothing."""
    if run.state not in HELD:
        return RunState(run.state)
    report = _checked_report(order.report)
    run.report = report
    if order.weights_digest is not None:
        take_trained(unit.session, run, order.weights_digest, order.weights_form, now)
    if order.state == RunState.FAILED:
        failure = order.failure
        code, detail = (failure.code, failure.detail) if failure else (_CRASHED, "The device gave no reason.")
        fail(unit, run, code, detail, now)
    else:
        RUN_LIFECYCLE.move(unit, run, RunState.SUCCEEDED, now, finished_at=now)
        clear_device(unit, run)
    return RunState(run.state)


def _checked_report(report: dict[str, Any] | None) -> dict[str, Any] | None:
    if report is None:
        return None
    try:
        RunReport.model_validate(report)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in ("report", *first["loc"]))
        raise Problem(Failure.INVALID, f"body.{where}: {first['msg']}.") from None
    return report
