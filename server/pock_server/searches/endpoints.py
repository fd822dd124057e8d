"""Searches over HTTP. What they found are a recipe and blobs, fetched as any other."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import PlainTextResponse
from sqlalchemy import select

from pock_server.builds.lifecycle import BUILD_LIFECYCLE
from pock_server.builds.schemas import BuildState
from pock_server.builds.service import read_log
from pock_server.builds.tables import BuildRecord
from pock_server.dependencies import BuildWriter, Reader, ServicesDep
from pock_server.events.repository import Events
from pock_server.events.stream import add_event_stream
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS
from pock_server.idempotency.header import Once
from pock_server.quotas.service import Quota, check
from pock_server.recipes.text import read_recipe
from pock_server.searches import service
from pock_server.searches.repository import Searches
from pock_server.searches.schemas import SearchIn, SearchOut, SearchPage
from pock_server.searches.tables import SearchRecord

router = APIRouter(prefix="/searches", tags=["searches"], responses=PROBLEMS)


@router.post(
    "",
    status_code=202,
    responses={200: {"model": SearchOut, "description": "The same search exists."}},
)
def create_search(
    body: SearchIn, response: Response, caller: BuildWriter, services: ServicesDep, once: Once
) -> SearchOut:
    """Find which parameters of a model to train, within limits, and keep the recipe that does it."""
    recipe = None if body.recipe is None else read_recipe(body.recipe)
    compiler, settings = services.compiler.load(), services.settings
    with services.database.write(caller.actor) as unit:
        now = services.clock.now()
        requested = service.request_search(unit, caller.workspace_id, body, recipe, compiler, settings, now)
        if requested.created:
            check(unit, settings, caller.workspace_id, now, Quota.BUILDS, Quota.BYTES, Quota.RECIPES)
        response.status_code = 202 if requested.created else 200
        (shown,) = service.show(Searches(unit.session, caller.workspace_id), [requested.row])
        return once(unit, shown, response.status_code)


@router.get("")
def list_searches(
    caller: Reader,
    services: ServicesDep,
    page: PageQuery,
    state: Annotated[BuildState | None, Query()] = None,
    model_id: Annotated[Id | None, Query()] = None,
) -> SearchPage:
    """List searches."""
    filters = [] if model_id is None else [SearchRecord.model_id == model_id]
    if state is not None:
        filters.append(SearchRecord.id.in_(select(BuildRecord.id).where(BuildRecord.state == state)))
    with services.database.read() as session:
        searches = Searches(session, caller.workspace_id)
        found = searches.page(page, *filters)
        return SearchPage(items=service.show(searches, found.rows), next_cursor=found.next_cursor)


@router.get("/{search_id}")
def get_search(search_id: Id, caller: Reader, services: ServicesDep) -> SearchOut:
    """One search."""
    with services.database.read() as session:
        searches = Searches(session, caller.workspace_id)
        (shown,) = service.show(searches, [searches.require(search_id)])
        return shown


@router.delete("/{search_id}", status_code=204)
def delete_search(search_id: Id, caller: BuildWriter, services: ServicesDep) -> None:
    """Forget a search that is over, with its log and what it found; the recipe stays."""
    with services.database.write(caller.actor) as unit:
        service.delete_search(unit, caller.workspace_id, search_id, services.clock.now())


@router.post("/{search_id}/cancel")
def cancel_search(search_id: Id, caller: BuildWriter, services: ServicesDep) -> SearchOut:
    """Cancel a search that is queued or running."""
    with services.database.write(caller.actor) as unit:
        row = service.cancel_search(unit, caller.workspace_id, search_id, services.clock.now())
        (shown,) = service.show(Searches(unit.session, caller.workspace_id), [row])
        return shown


@router.get("/{search_id}/log", response_class=PlainTextResponse)
def get_search_log(search_id: Id, caller: Reader, services: ServicesDep) -> str:
    """The search's log as text."""
    with services.database.read() as session:
        row = Searches(session, caller.workspace_id).require(search_id)
        return read_log(Events(session, caller.workspace_id), row.id)


add_event_stream(router, Searches, BUILD_LIFECYCLE, "`state`, `progress` and `log`")
