"""Campaigns over HTTP."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from pock_server.auth.schemas import Scope
from pock_server.campaigns import service
from pock_server.campaigns.lifecycle import CAMPAIGN_LIFECYCLE
from pock_server.campaigns.repository import Campaigns, Cells
from pock_server.campaigns.results import as_csv, results
from pock_server.campaigns.schemas import (
    CampaignIn,
    CampaignOut,
    CampaignPage,
    CampaignResults,
    CampaignState,
    CellList,
    CellState,
    ResultsBy,
    ResultsFormat,
)
from pock_server.campaigns.tables import CampaignRecord
from pock_server.db.globs import matches
from pock_server.db.unit import Unit
from pock_server.dependencies import Reader, RunWriter, ServicesDep
from pock_server.events.stream import add_event_stream
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS
from pock_server.idempotency.header import Once
from pock_server.names.schemas import NameGlob

router = APIRouter(prefix="/campaigns", tags=["campaigns"], responses=PROBLEMS)
_CSV: dict[int | str, dict[str, Any]] = {200: {"content": {"text/csv": {"schema": {"type": "string"}}}}}


@router.post("", status_code=202)
def create_campaign(body: CampaignIn, caller: RunWriter, services: ServicesDep, once: Once) -> CampaignOut:
    """Run builds on every device of their targets that a selector chooses, with each seed. To have the builds made
    for it, the scope builds:write is needed as well."""
    if body.model_id is not None:
        caller.demand(Scope.BUILDS_WRITE)
    around = service.circumstances(services, body)
    with services.database.write(caller.actor) as unit:
        row = service.create_campaign(unit, caller.workspace_id, body, around, services.clock.now())
        return once(unit, _shown(unit, row), 202)


@router.get("")
def list_campaigns(
    caller: Reader,
    services: ServicesDep,
    page: PageQuery,
    state: Annotated[CampaignState | None, Query()] = None,
    schedule_id: Annotated[Id | None, Query(description="Those that a schedule asked for.")] = None,
    name: NameGlob = None,
) -> CampaignPage:
    """List campaigns."""
    column: Any = CampaignRecord.name
    wanted = ((CampaignRecord.state, state), (CampaignRecord.schedule_id, schedule_id))
    filters = [one == value for one, value in wanted if value is not None]
    if name is not None:
        filters.append(matches(column, name))
    with services.database.read() as session:
        campaigns = Campaigns(session, caller.workspace_id)
        found = campaigns.page(page, *filters)
        return CampaignPage(items=service.show(campaigns, found.rows), next_cursor=found.next_cursor)


@router.get("/{campaign_id}")
def get_campaign(campaign_id: Id, caller: Reader, services: ServicesDep) -> CampaignOut:
    """One campaign."""
    with services.database.read() as session:
        campaigns = Campaigns(session, caller.workspace_id)
        (shown,) = service.show(campaigns, [campaigns.require(campaign_id)])
        return shown


@router.get("/{campaign_id}/cells")
def list_campaign_cells(
    campaign_id: Id,
    caller: Reader,
    services: ServicesDep,
    after: Annotated[int, Query(ge=-1, le=2**31 - 1, description="Number of the last cell received.")] = -1,
    state: Annotated[CellState | None, Query()] = None,
) -> CellList:
    """Cells of the campaign after cell number `after`, at most 200."""
    with services.database.read() as session:
        row = Campaigns(session, caller.workspace_id).require(campaign_id)
        return CellList(items=[service.show_cell(cell) for cell in Cells(session, row.id).after(after, state)])


@router.get("/{campaign_id}/results", response_model=CampaignResults, responses=_CSV)
def get_campaign_results(
    campaign_id: Id,
    caller: Reader,
    services: ServicesDep,
    by: Annotated[ResultsBy, Query(description="What a row is about.")] = ResultsBy.TARGET,
    format: Annotated[ResultsFormat, Query()] = ResultsFormat.JSON,
) -> CampaignResults | Response:
    """What was measured so far: medians and spread over devices and seeds, and failures by class."""
    with services.database.read() as session:
        row = Campaigns(session, caller.workspace_id).require(campaign_id)
        found = results(session, caller.workspace_id, Cells(session, row.id).all(), by)
    if format is ResultsFormat.CSV:
        return Response(as_csv(found), media_type="text/csv; charset=utf-8")
    return found


@router.post("/{campaign_id}/pause")
def pause_campaign(campaign_id: Id, caller: RunWriter, services: ServicesDep) -> CampaignOut:
    """Ask for no further runs until it is resumed."""
    with services.database.write(caller.actor) as unit:
        return _shown(unit, service.pause(unit, caller.workspace_id, campaign_id, services.clock.now()))


@router.post("/{campaign_id}/resume")
def resume_campaign(campaign_id: Id, caller: RunWriter, services: ServicesDep) -> CampaignOut:
    """Go on after a pause."""
    with services.database.write(caller.actor) as unit:
        return _shown(unit, service.resume(unit, caller.workspace_id, campaign_id, services.clock.now()))


@router.post("/{campaign_id}/cancel")
def cancel_campaign(campaign_id: Id, caller: RunWriter, services: ServicesDep) -> CampaignOut:
    """End a campaign that is not over, and its runs."""
    with services.database.write(caller.actor) as unit:
        return _shown(unit, service.cancel(unit, caller.workspace_id, campaign_id, services.clock.now()))


@router.delete("/{campaign_id}", status_code=204)
def delete_campaign(campaign_id: Id, caller: RunWriter, services: ServicesDep) -> None:
    """Forget a campaign that is over; its runs stay."""
    with services.database.write(caller.actor) as unit:
        service.delete_campaign(unit, caller.workspace_id, campaign_id, services.clock.now())


def _shown(unit: Unit, row: CampaignRecord) -> CampaignOut:
    (shown,) = service.show(Campaigns(unit.session, row.workspace_id), [row])
    return shown


add_event_stream(router, Campaigns, CAMPAIGN_LIFECYCLE, "`state` and `progress`")
