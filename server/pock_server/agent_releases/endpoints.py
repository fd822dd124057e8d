"""Releases of the agent over HTTP."""

from fastapi import APIRouter, Response

from pock_server.agent_releases import service
from pock_server.agent_releases.repository import AgentReleases
from pock_server.agent_releases.schemas import AgentReleaseIn, AgentReleaseOut, AgentReleasePage
from pock_server.dependencies import DeviceAdmin, Reader, ServicesDep
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS
from pock_server.idempotency.header import Once
from pock_server.quotas.service import Quota, check

router = APIRouter(prefix="/agent-releases", tags=["agent releases"], responses=PROBLEMS)


@router.post("", status_code=201, responses={200: {"model": AgentReleaseOut, "description": "The document is known."}})
def create_agent_release(
    body: AgentReleaseIn, response: Response, caller: DeviceAdmin, services: ServicesDep, once: Once
) -> AgentReleaseOut:
    """Keep a release of the agent that root keys signed."""
    release = service.checked(services, caller.workspace_id, body.document)
    with services.database.write(caller.actor) as unit:
        now = services.clock.now()
        row, created = service.create_release(unit, caller.workspace_id, body, release, now)
        if created:
            check(unit, services.settings, caller.workspace_id, now, Quota.AGENT_RELEASES)
        response.status_code = 201 if created else 200
        return once(unit, service.show(row), response.status_code)


@router.get("")
def list_agent_releases(caller: Reader, services: ServicesDep, page: PageQuery) -> AgentReleasePage:
    """List releases."""
    with services.database.read() as session:
        found = AgentReleases(session, caller.workspace_id).page(page)
        return AgentReleasePage(items=[service.show(row) for row in found.rows], next_cursor=found.next_cursor)


@router.get("/{release_id}")
def get_agent_release(release_id: Id, caller: Reader, services: ServicesDep) -> AgentReleaseOut:
    """One release."""
    with services.database.read() as session:
        return service.show(AgentReleases(session, caller.workspace_id).require(release_id))


@router.delete("/{release_id}", status_code=204)
def delete_agent_release(release_id: Id, caller: DeviceAdmin, services: ServicesDep) -> None:
    """Forget a release."""
    with services.database.write(caller.actor) as unit:
        service.delete_release(unit, caller.workspace_id, release_id, services.clock.now())
