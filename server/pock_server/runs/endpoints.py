"""Runs over HTTP, for people."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse
from sqlalchemy.orm import Session

from pock_server.dependencies import Reader, RunWriter, ServicesDep
from pock_server.events.repository import Events
from pock_server.events.stream import add_event_stream
from pock_server.events.tables import EventRecord
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS
from pock_server.idempotency.header import Once
from pock_server.quotas.service import Quota, check
from pock_server.runs import service
from pock_server.runs.lifecycle import RUN_LIFECYCLE
from pock_server.runs.reporting.log import log_text
from pock_server.runs.repository import Runs
from pock_server.runs.schemas import MAX_INT, RunIn, RunOut, RunPage, RunState, StepList, StepOut
from pock_server.runs.tables import RunRecord

router = APIRouter(prefix="/runs", tags=["runs"], responses=PROBLEMS)


@router.post("", status_code=202)
def create_run(body: RunIn, caller: RunWriter, services: ServicesDep, once: Once) -> RunOut:
    """Let a device run a build on a dataset."""
    with services.database.write(caller.actor) as unit:
        row = service.request_run(unit, caller.workspace_id, body, services.settings, services.clock.now())
        check(unit, services.settings, caller.workspace_id, services.clock.now(), Quota.RUNS)
        (shown,) = service.show(Runs(unit.session, caller.workspace_id), [row])
        return once(unit, shown, 202)


@router.get("")
def list_runs(
    caller: Reader,
    services: ServicesDep,
    page: PageQuery,
    device_id: Annotated[Id | None, Query()] = None,
    build_id: Annotated[Id | None, Query()] = None,
    state: Annotated[RunState | None, Query()] = None,
    part_of: Annotated[Id | None, Query(description="Runs of one longer work.")] = None,
    text: Annotated[str | None, Query(max_length=200, description="Words that its name, device or id has.")] = None,
    retried: Annotated[bool, Query(description="False: leave out runs that were tried again.")] = True,
) -> RunPage:
    """List runs; their reports come without samples, kernels and evaluations, and with the extremes of health."""
    with services.database.read() as session:
        wanted = (
            (RunRecord.device_id, device_id),
            (RunRecord.build_id, build_id),
            (RunRecord.state, state),
            (RunRecord.part_of, part_of),
        )
        runs = Runs(session, caller.workspace_id)
        filters = [column == value for column, value in wanted if value is not None]
        filters += runs.called(text or "")
        if not retried:
            filters.append(RunRecord.retried_by.is_(None))
        found = runs.page(page, *filters)
        return RunPage(items=service.show(runs, found.rows, slim=True), next_cursor=found.next_cursor)


@router.get("/{run_id}")
def get_run(run_id: Id, caller: Reader, services: ServicesDep) -> RunOut:
    """One run."""
    with services.database.read() as session:
        runs = Runs(session, caller.workspace_id)
        return service.show_whole(runs, runs.require(run_id), services.blobs)


@router.get("/{run_id}/steps")
def list_run_steps(
    run_id: Id,
    caller: Reader,
    services: ServicesDep,
    after: Annotated[int, Query(ge=-1, le=MAX_INT, description="Number of the last step received.")] = -1,
) -> StepList:
    """Steps of the run's present attempt after step number `after`."""
    with services.database.read() as session:
        runs = Runs(session, caller.workspace_id)
        rows = runs.steps(runs.require(run_id), after)
        return StepList(items=[StepOut(step=row.step, loss=row.loss, ms=row.ms) for row in rows])


@router.get("/{run_id}/log", response_class=PlainTextResponse)
def get_run_log(run_id: Id, caller: Reader, services: ServicesDep) -> str:
    """What happened to the run, a line each: its states and pauses, what its device began, evaluated and saved."""
    with services.database.read() as session:
        row = Runs(session, caller.workspace_id).require(run_id)
        return log_text(Events(session, caller.workspace_id).but(row.id, "steps"))


@router.delete("/{run_id}", status_code=204)
def delete_run(run_id: Id, caller: RunWriter, services: ServicesDep) -> None:
    """Forget a run that is over, with its steps and weights."""
    with services.database.write(caller.actor) as unit:
        service.delete_run(unit, caller.workspace_id, run_id, services.clock.now())


@router.post("/{run_id}/cancel")
def cancel_run(run_id: Id, caller: RunWriter, services: ServicesDep) -> RunOut:
    """Cancel a run that is not over."""
    with services.database.write(caller.actor) as unit:
        row = service.cancel_run(unit, caller.workspace_id, run_id, services.clock.now())
        (shown,) = service.show(Runs(unit.session, caller.workspace_id), [row])
        return shown


def _shown(session: Session, row: EventRecord) -> dict[str, Any]:
    return Runs(session, row.workspace_id).streamed(row.subject_id, row.data) if row.kind == "steps" else row.data


add_event_stream(router, Runs, RUN_LIFECYCLE, "`state`, `steps`, `eval` and `log`", _shown)
