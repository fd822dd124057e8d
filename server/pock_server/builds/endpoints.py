"""Builds over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import PlainTextResponse

from pock_server.builds import service
from pock_server.builds.lifecycle import BUILD_LIFECYCLE
from pock_server.builds.repository import Builds
from pock_server.builds.schemas import BuildIn, BuildKind, BuildOut, BuildPage, BuildState
from pock_server.builds.tables import BuildRecord
from pock_server.dependencies import BuildWriter, Reader, ServicesDep
from pock_server.events.repository import Events
from pock_server.events.stream import add_event_stream
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS
from pock_server.idempotency.header import Once
from pock_server.names.schemas import NameGlob, Ref, Tag
from pock_server.names.service import tag, untag
from pock_server.quotas.service import Quota, check
from pock_server.recipes.text import read_recipe

router = APIRouter(prefix="/builds", tags=["builds"], responses=PROBLEMS)


@router.post(
    "",
    status_code=202,
    responses={200: {"model": BuildOut, "description": "The same build exists."}},
)
def create_build(body: BuildIn, response: Response, caller: BuildWriter, services: ServicesDep, once: Once) -> BuildOut:
    """Compile a model by a recipe for a target."""
    recipe = None if body.recipe is None else read_recipe(body.recipe)
    compiler = services.compiler.load()
    with services.database.write(caller.actor) as unit:
        now = services.clock.now()
        requested = service.request_build(unit, caller.workspace_id, body, recipe, compiler, now)
        if requested.created:
            check(unit, services.settings, caller.workspace_id, now, Quota.BUILDS, Quota.BYTES)
        response.status_code = 202 if requested.created else 200
        (shown,) = service.show(Builds(unit.session, caller.workspace_id), [requested.row])
        return once(unit, shown, response.status_code)


@router.get("")
def list_builds(
    caller: Reader,
    services: ServicesDep,
    page: PageQuery,
    state: Annotated[BuildState | None, Query()] = None,
    model_id: Annotated[Id | None, Query()] = None,
    ref: Ref = None,
    name: NameGlob = None,
) -> BuildPage:
    """List builds."""
    with services.database.read() as session:
        builds = Builds(session, caller.workspace_id)
        filters = [*builds.asked(ref, name), BuildRecord.kind == BuildKind.MODEL]
        if state is not None:
            filters.append(BuildRecord.state == state)
        if model_id is not None:
            filters.append(BuildRecord.model_id == model_id)
        found = builds.page(page, *filters)
        return BuildPage(items=service.show(builds, found.rows), next_cursor=found.next_cursor)


@router.get("/{build_id}")
def get_build(build_id: Id, caller: Reader, services: ServicesDep) -> BuildOut:
    """One build."""
    with services.database.read() as session:
        builds = Builds(session, caller.workspace_id)
        (shown,) = service.show(builds, [builds.require(build_id)])
        return shown


@router.put("/{build_id}/tags/{tag_name}")
def tag_build(build_id: Id, tag_name: Tag, caller: BuildWriter, services: ServicesDep) -> BuildOut:
    """Have a tag name this version of the build, whichever it named before."""
    with services.database.write(caller.actor) as unit:
        builds = Builds(unit.session, caller.workspace_id)
        row = tag(unit, builds, build_id, tag_name, services.clock.now())
        (shown,) = service.show(builds, [row])
        return shown


@router.delete("/{build_id}/tags/{tag_name}", status_code=204)
def untag_build(build_id: Id, tag_name: Tag, caller: BuildWriter, services: ServicesDep) -> None:
    """Take a tag away from this version of the build."""
    with services.database.write(caller.actor) as unit:
        untag(unit, Builds(unit.session, caller.workspace_id), build_id, tag_name, services.clock.now())


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
        (shown,) = service.show(Builds(unit.session, caller.workspace_id), [row])
        return shown


@router.get("/{build_id}/log", response_class=PlainTextResponse)
def get_build_log(build_id: Id, caller: Reader, services: ServicesDep) -> str:
    """The build's log as text."""
    with services.database.read() as session:
        row = Builds(session, caller.workspace_id).require(build_id)
        return service.read_log(Events(session, caller.workspace_id), row.id)


add_event_stream(router, Builds, BUILD_LIFECYCLE, "`state`, `progress` and `log`")
