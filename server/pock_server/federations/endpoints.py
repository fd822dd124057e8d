"""Federations over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Query

from pock_server.dependencies import Reader, RunWriter, ServicesDep
from pock_server.events.stream import add_event_stream
from pock_server.federations import service
from pock_server.federations.lifecycle import FEDERATION_LIFECYCLE
from pock_server.federations.repository import Federations
from pock_server.federations.schemas import FederationIn, FederationOut, FederationPage, RoundList
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS
from pock_server.idempotency.header import Once
from pock_server.quotas.service import Quota, check

router = APIRouter(prefix="/federations", tags=["federations"], responses=PROBLEMS)


@router.post("", status_code=202)
def create_federation(body: FederationIn, caller: RunWriter, services: ServicesDep, once: Once) -> FederationOut:
    """Train on many devices, round by round."""
    service.check_trainable(services, caller.workspace_id, body.build_id)
    now = services.clock.now()
    with services.database.write(caller.actor) as unit:
        row = service.create_federation(unit, caller.workspace_id, body, now)
        check(unit, services.settings, caller.workspace_id, now, Quota.FEDERATIONS)
        return once(unit, service.show(row), 202)


@router.get("")
def list_federations(caller: Reader, services: ServicesDep, page: PageQuery) -> FederationPage:
    """List federations."""
    with services.database.read() as session:
        found = Federations(session, caller.workspace_id).page(page)
        return FederationPage(items=[service.show(row) for row in found.rows], next_cursor=found.next_cursor)


@router.get("/{federation_id}")
def get_federation(federation_id: Id, caller: Reader, services: ServicesDep) -> FederationOut:
    """One federation."""
    with services.database.read() as session:
        return service.show(Federations(session, caller.workspace_id).require(federation_id))


@router.get("/{federation_id}/rounds")
def list_federation_rounds(
    federation_id: Id,
    caller: Reader,
    services: ServicesDep,
    after: Annotated[int, Query(ge=0, le=2**31 - 1, description="Number of the last round received.")] = 0,
) -> RoundList:
    """Rounds of a federation after round number `after`, with their devices."""
    with services.database.read() as session:
        federations = Federations(session, caller.workspace_id)
        row = federations.require(federation_id)
        rounds = federations.rounds(row, after)
        runs = {run.id: run for one in rounds if one.finished_at is None for run in federations.runs(row, one)}
        return RoundList(items=[service.show_round(one, runs) for one in rounds])


@router.delete("/{federation_id}", status_code=204)
def delete_federation(federation_id: Id, caller: RunWriter, services: ServicesDep) -> None:
    """Forget a federation that is over, and its weights; its runs stay."""
    with services.database.write(caller.actor) as unit:
        service.delete_federation(unit, caller.workspace_id, federation_id, services.clock.now())


@router.post("/{federation_id}/cancel")
def cancel_federation(federation_id: Id, caller: RunWriter, services: ServicesDep) -> FederationOut:
    """Cancel a federation that is not over, and its runs."""
    with services.database.write(caller.actor) as unit:
        return service.show(service.cancel_federation(unit, caller.workspace_id, federation_id, services.clock.now()))


add_event_stream(router, Federations, FEDERATION_LIFECYCLE, "`state`")
