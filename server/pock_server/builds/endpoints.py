"""Builds over HTTP."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import PlainTextResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent

from pock_server.builds import service
from pock_server.builds.lifecycle import BUILD_LIFECYCLE
from pock_server.builds.queue import queue_positions
from pock_server.builds.recipe_text import read_recipe
from pock_server.builds.repository import Builds
from pock_server.builds.schemas import BuildIn, BuildOut, BuildPage, BuildState
from pock_server.builds.tables import BuildRecord
from pock_server.dependencies import BuildWriter, Reader, ServicesDep
from pock_server.events.repository import Events
from pock_server.events.stream import LastEventId, Subject, stream
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS
from pock_server.idempotency.header import Once
from pock_server.quotas.service import Quota, check

router = APIRouter(prefix="/builds", tags=["builds"], responses=PROBLEMS)


@router.post(
    "",
    status_code=202,
    responses={200: {"model": BuildOut, "description": "The same build exists."}},
)
def create_build(body: BuildIn, response: Response, caller: BuildWriter, services: ServicesDep, once: Once) -> BuildOut:
    """Compile a model by a recipe for a target."""
    recipe, compiler = read_recipe(body.recipe), services.compiler.load()
    with services.database.write(caller.actor) as unit:
        now = services.clock.now()
        requested = service.request_build(unit, caller.workspace_id, body, recipe, compiler, now)
        if requested.created:
            check(unit, services.settings, caller.workspace_id, now, Quota.BUILDS, Quota.BYTES)
        response.status_code = 202 if requested.created else 200
        described = service.describe(requested.row, queue_positions(unit.session, [requested.row]))
        return once(unit, described, response.status_code)


@router.get("")
def list_builds(
    caller: Reader,
    services: ServicesDep,
    page: PageQuery,
    state: Annotated[BuildState | None, Query()] = None,
    model_id: Annotated[Id | None, Query()] = None,
) -> BuildPage:
    """List builds."""
    with services.database.read() as session:
        filters = []
        if state is not None:
            filters.append(BuildRecord.state == state)
        if model_id is not None:
            filters.append(BuildRecord.model_id == model_id)
        found = Builds(session, caller.workspace_id).page(page, *filters)
        positions = queue_positions(session, found.rows)
        return BuildPage(items=[service.describe(row, positions) for row in found.rows], next_cursor=found.next_cursor)


@router.get("/{build_id}")
def get_build(build_id: Id, caller: Reader, services: ServicesDep) -> BuildOut:
    """One build."""
    with services.database.read() as session:
        row = Builds(session, caller.workspace_id).require(build_id)
        return service.describe(row, queue_positions(session, [row]))


@router.delete("/{build_id}", status_code=204)
def delete_build(build_id: Id, caller: BuildWriter, services: ServicesDep) -> None:
    """Forget a build that is over and has no runs, with its log and artifact."""
    with services.database.write(caller.actor) as unit:
        service.delete_build(unit, caller.workspace_id, build_id, services.clock.now())


@router.post("/{build_id}/cancel")
def cancel_build(build_id: Id, caller: BuildWriter, services: ServicesDep) -> BuildOut:
    """Cancel a build that is queued or running."""
    with services.database.write(caller.actor) as unit:
        row = service.cancel_build(unit, caller.workspace_id, build_id, services.clock.now())
        return service.describe(row, {})


@router.get("/{build_id}/log", response_class=PlainTextResponse)
def get_build_log(build_id: Id, caller: Reader, services: ServicesDep) -> str:
    """The build's log as text."""
    with services.database.read() as session:
        row = Builds(session, caller.workspace_id).require(build_id)
        return service.read_log(Events(session, caller.workspace_id), row.id)


def _subject(build_id: Id, caller: Reader, services: ServicesDep) -> Subject:
    with services.database.read() as session:
        row = Builds(session, caller.workspace_id).require(build_id)
    return Subject(caller, row.workspace_id, row.id, f"build:{row.id}", frozenset(BUILD_LIFECYCLE.final))


@router.get("/{build_id}/events", response_class=EventSourceResponse)
async def stream_build_events(
    subject: Annotated[Subject, Depends(_subject)], services: ServicesDep, last_event_id: LastEventId = 0
) -> AsyncIterator[ServerSentEvent]:
    """Server-sent events `state`, `progress` and `log`, from the beginning or after `Last-Event-ID`."""
    async for event in stream(services, subject, last_event_id):
        yield event
