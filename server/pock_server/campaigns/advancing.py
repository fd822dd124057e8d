"""Brings campaigns on: what became of their runs, whether to stop, and which runs come next.

The leading process does this each second and whenever a run ends. Each step is one transaction that locks the campaign,
and looks again whether it is still to be done: who is killed between two of them has lost nothing and doubled nothing.
"""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import update

from pock_server.builds.tables import BuildRecord
from pock_server.campaigns.lifecycle import CAMPAIGN_LIFECYCLE
from pock_server.campaigns.measuring import measure
from pock_server.campaigns.repository import Campaigns, Cells
from pock_server.campaigns.schemas import CampaignIn, CampaignState, CellState
from pock_server.campaigns.tables import CampaignCellRecord, CampaignRecord
from pock_server.db.unit import Unit
from pock_server.events.repository import Events
from pock_server.http.problems import Failure, Problem
from pock_server.quotas.service import Quota, check
from pock_server.runs.failures import DEPENDENCY_FAILED, TIMEOUT
from pock_server.runs.making import DEFAULT_RETRIES
from pock_server.runs.schemas import RunIn, RunState
from pock_server.runs.service import cancel_run, request_run
from pock_server.runs.tables import RunRecord
from pock_server.services import Services
from pock_server.webhooks.service import announce
from pock_server.webhooks.tables import Event

_OUTCOMES = {
    RunState.SUCCEEDED: CellState.SUCCEEDED,
    RunState.FAILED: CellState.FAILED,
    RunState.CANCELLED: CellState.CANCELLED,
}
_DETAIL_CHARACTERS = 1000
_REPORTS = 20
"""Reports in memory at once."""
_BATCH = 100
"""Runs that are asked for before others have their turn."""


def advance(services: Services, workspace_id: str, campaign_id: str) -> None:
    """Do for the campaign what is to be done now."""
    while _has_news(services, workspace_id, campaign_id):
        with services.database.write() as unit:
            row = Campaigns(unit.session, workspace_id).find(campaign_id, lock=True)
            if row is not None and row.state not in CAMPAIGN_LIFECYCLE.final:
                _settle(unit, row, services.clock.now())
    with services.database.read() as session:
        row = Campaigns(session, workspace_id).require(campaign_id)
        doomed = Cells(session, campaign_id).open_runs() if row.state == CampaignState.STOPPING else []
    for run_id in doomed:
        with services.database.write() as unit:
            cancel_run(unit, workspace_id, run_id, services.clock.now())
    if doomed:
        advance(services, workspace_id, campaign_id)
    elif row.state == CampaignState.RUNNING:
        _begin_next(services, row)


def _has_news(services: Services, workspace_id: str, campaign_id: str) -> bool:
    with services.database.read() as session:
        row = Campaigns(session, workspace_id).require(campaign_id)
        cells, now = Cells(session, campaign_id), services.clock.now()
        late = row.ends_at is not None and row.ends_at <= now and row.state != CampaignState.STOPPING
        over = row.state in CAMPAIGN_LIFECYCLE.final
        return not over and (late or cells.some_ended() or bool(cells.buildless()) or cells.open_count() == 0)


def _settle(unit: Unit, row: CampaignRecord, now: datetime) -> None:
    """Give the cells whose runs are over their outcomes, and the campaign its end if that is it."""
    cells = Cells(unit.session, row.id)
    for cell, run in cells.ended(_REPORTS):
        if run is not None and run.retried_by is not None:
            cell.run_id = run.retried_by
        else:
            _settle_cell(cell, run, now)
    for cell, build in cells.buildless():
        _skip(cell, {"code": DEPENDENCY_FAILED, "detail": _without_build(build)}, now)
    unit.session.flush()
    announce_progress(unit, row, now)
    order = CampaignIn.model_validate(row.wanted)
    if row.state != CampaignState.STOPPING:
        if order.canary and row.canary_ended_at is None and not cells.count(*_canary(CellState.SUCCEEDED, False)):
            row.canary_ended_at = now
        if (failure := _reason_to_stop(row, order, cells, now)) is not None:
            stop(unit, row, CampaignState.FAILED, failure, now)
            return
    if cells.open_count() == 0:
        _finish(unit, row, cells, now)


def _without_build(build: BuildRecord | None) -> str:
    if build is None:
        return "Its build was deleted."
    detail = str((build.failure or {}).get("detail", ""))[:_DETAIL_CHARACTERS]
    return f"Its build failed: {detail}" if detail else f"Its build was {build.state}."


def _settle_cell(cell: CampaignCellRecord, run: RunRecord | None, now: datetime) -> None:
    cell.finished_at = now
    if run is None:
        cell.state = CellState.CANCELLED
        cell.failure = {"code": Failure.NOT_FOUND.code, "detail": "Its run was deleted."}
        return
    cell.state, cell.failure = _OUTCOMES[RunState(run.state)], run.failure
    cell.measured = measure(run.report) if run.report and run.state == RunState.SUCCEEDED else None


def _skip(cell: CampaignCellRecord, failure: dict[str, Any], now: datetime) -> None:
    cell.state, cell.failure, cell.finished_at = CellState.SKIPPED, failure, now


def _canary(state: CellState, same: bool = True) -> tuple[Any, ...]:
    """Cells of canaries that are, or are not, in this state."""
    column = CampaignCellRecord.state
    return CampaignCellRecord.canary.is_(True), column == state if same else column != state


def _reason_to_stop(row: CampaignRecord, order: CampaignIn, cells: Cells, now: datetime) -> dict[str, Any] | None:
    if order.canary:
        for state in (CellState.FAILED, CellState.CANCELLED, CellState.SKIPPED):
            if count := cells.count(*_canary(state)):
                return _stopped(f"{count} of the canaries' cells {'was' if count == 1 else 'were'} {state}.")
    failed, total = cells.count(CampaignCellRecord.state == CellState.FAILED), cells.count()
    if order.stop and order.stop.failed is not None and failed >= order.stop.failed:
        return _stopped(f"{failed} cell{'' if failed == 1 else 's'} failed; it stops at {order.stop.failed}.")
    if order.stop and order.stop.failed_share is not None and failed > order.stop.failed_share * total:
        return _stopped(f"{failed} of {total} cells failed; it stops above {order.stop.failed_share:.0%}.")
    if row.ends_at is not None and row.ends_at <= now and cells.open_count():
        return {"code": TIMEOUT, "detail": f"Its deadline of {order.deadline_seconds} s is over."}
    return None


def _stopped(detail: str) -> dict[str, Any]:
    return {"code": Failure.STATE_CONFLICT.code, "detail": f"Stopped by its own rules: {detail}"}


def stop(unit: Unit, row: CampaignRecord, ending: CampaignState, failure: dict[str, Any] | None, now: datetime) -> None:
    """Ask for no further runs, and end as `ending` when those that were asked for are cancelled. The campaign is
    locked; a 409 `Problem` if it is over."""
    CAMPAIGN_LIFECYCLE.move(unit, row, CampaignState.STOPPING, now, ending=ending, failure=failure)
    detail = failure["detail"] if failure else "The campaign was cancelled."
    pending = (CampaignCellRecord.campaign_id == row.id, CampaignCellRecord.state == CellState.PENDING)
    outcome = {"code": Failure.STATE_CONFLICT.code, "detail": detail}
    skipped = update(CampaignCellRecord).where(*pending)
    unit.session.execute(skipped.values(state=CellState.SKIPPED, failure=outcome, finished_at=now))
    announce_progress(unit, row, now)
    cells = Cells(unit.session, row.id)
    if cells.open_count() == 0:
        _finish(unit, row, cells, now)


def _finish(unit: Unit, row: CampaignRecord, cells: Cells, now: datetime) -> None:
    failure, ending = row.failure, CampaignState(row.ending or CampaignState.SUCCEEDED)
    if row.ending is None and not cells.count(CampaignCellRecord.state == CellState.SUCCEEDED):
        ending, failure = CampaignState.FAILED, _stopped("no cell succeeded.")
    CAMPAIGN_LIFECYCLE.move(unit, row, ending, now, failure=failure, finished_at=now)
    counts = Campaigns(unit.session, row.workspace_id).counts([row])[row.id]
    data = {"campaign_id": row.id, "name": row.name, "state": str(ending), "cells": counts.model_dump()}
    announce(unit, row.workspace_id, Event.CAMPAIGN_FINISHED, {**data, "failure": failure}, now)


def announce_progress(unit: Unit, row: CampaignRecord, now: datetime) -> None:
    """Tell how many cells have their outcome."""
    counts = Campaigns(unit.session, row.workspace_id).counts([row])[row.id]
    done = counts.total - counts.pending - counts.running
    data = {"stage": "runs", "done": done, "total": counts.total, "fraction": done / counts.total}
    Events(unit.session, row.workspace_id).append(row.id, "progress", {**data, "cells": counts.model_dump()}, now)
    unit.announce(f"campaign:{row.id}")


def _begin_next(services: Services, row: CampaignRecord) -> None:
    """Ask for the next runs, each in a transaction of its own."""
    order, now = CampaignIn.model_validate(row.wanted), services.clock.now()
    waits = order.canary is not None and (
        row.canary_ended_at is None or now < row.canary_ended_at + timedelta(seconds=order.canary.wait_seconds)
    )
    with services.database.read() as session:
        cells = Cells(session, row.id)
        room = _BATCH
        if order.parallelism is not None:
            room = min(room, order.parallelism - cells.count(CampaignCellRecord.state == CellState.RUNNING))
        numbers = cells.ready(order.per_device, room, waits) if room > 0 else []
    for number in numbers:
        if not _begin(services, row, order, number):
            return


def _begin(services: Services, row: CampaignRecord, order: CampaignIn, number: int) -> bool:
    """Ask for the run of one cell, or skip the cell if that is refused. Says whether others may be asked for now."""
    now = services.clock.now()
    try:
        with services.database.write() as unit:
            cell = _pending(unit, row, number)
            if cell is not None and _has_room(unit, cell, order):
                run = request_run(unit, row.workspace_id, _run(cell, order), services.settings, now, row.id)
                check(unit, services.settings, row.workspace_id, now, Quota.RUNS)
                cell.run_id, cell.state = run.id, CellState.RUNNING
            return True
    except Problem as problem:
        if problem.failure.retryable:
            return False
        refusal = problem
    with services.database.write() as unit:
        cell = _pending(unit, row, number)
        if cell is not None:
            _skip(cell, {"code": refusal.failure.code, "detail": refusal.detail}, now)
            unit.session.flush()
            announce_progress(unit, row, now)
    return True


def _pending(unit: Unit, row: CampaignRecord, number: int) -> CampaignCellRecord | None:
    """The cell, if it is still to be begun; its campaign is locked."""
    locked = Campaigns(unit.session, row.workspace_id).find(row.id, lock=True)
    if locked is None or locked.state != CampaignState.RUNNING:
        return None
    cell = Cells(unit.session, row.id).find(number)
    return cell if cell is not None and cell.state == CellState.PENDING else None


def _has_room(unit: Unit, cell: CampaignCellRecord, order: CampaignIn) -> bool:
    """Whether the device, and the campaign, may have one run more."""
    cells, running = Cells(unit.session, cell.campaign_id), CampaignCellRecord.state == CellState.RUNNING
    if cells.count(running, CampaignCellRecord.device_id == cell.device_id) >= order.per_device:
        return False
    return order.parallelism is None or cells.count(running) < order.parallelism


def _run(cell: CampaignCellRecord, order: CampaignIn) -> RunIn:
    return RunIn(
        build_id=cell.build_id,
        device_id=cell.device_id,
        dataset_id=order.dataset_id,
        eval_dataset_id=order.eval_dataset_id,
        dataset_name=order.dataset_name,
        eval_dataset_name=order.eval_dataset_name,
        entry=order.entry,
        held_out=order.held_out,
        steps=order.steps,
        threads=order.threads,
        seed=cell.seed,
        priority=order.priority,
        deadline_seconds=order.run_deadline_seconds,
        retries=dict(DEFAULT_RETRIES) if order.retries is None else order.retries,
        retry_delay_seconds=order.retry_delay_seconds,
    )
