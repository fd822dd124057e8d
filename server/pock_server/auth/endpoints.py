"""API keys over HTTP."""

from fastapi import APIRouter

from pock_server.auth import service
from pock_server.auth.repository import ApiKeys
from pock_server.auth.schemas import ApiKeyCreated, ApiKeyIn, ApiKeyPage
from pock_server.dependencies import KeyAdmin, ServicesDep
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS
from pock_server.quotas.service import Quota, check

router = APIRouter(prefix="/api-keys", tags=["api-keys"], responses=PROBLEMS)


@router.post("", status_code=201)
def create_api_key(body: ApiKeyIn, caller: KeyAdmin, services: ServicesDep) -> ApiKeyCreated:
    """Make an API key; its text is in this answer and nowhere else."""
    with services.database.write(caller.actor) as unit:
        service.refuse_escalation(caller.scopes, body.scopes)
        made = service.create_key(unit, caller.workspace_id, body, services.clock.now())
        check(unit, services.settings, caller.workspace_id, services.clock.now(), Quota.KEYS)
        return made


@router.get("")
def list_api_keys(caller: KeyAdmin, services: ServicesDep, page: PageQuery) -> ApiKeyPage:
    """List the workspace's keys, without their secrets."""
    with services.database.read() as session:
        found = ApiKeys(session, caller.workspace_id).page(page)
        return ApiKeyPage(items=[service.describe(row) for row in found.rows], next_cursor=found.next_cursor)


@router.delete("/{key_id}", status_code=204)
def revoke_api_key(key_id: Id, caller: KeyAdmin, services: ServicesDep) -> None:
    """Revoke a key at once; the browser sessions opened with it end, too."""
    with services.database.write(caller.actor) as unit:
        row = ApiKeys(unit.session, caller.workspace_id).require(key_id)
        service.revoke_key(unit, row, services.clock.now())
