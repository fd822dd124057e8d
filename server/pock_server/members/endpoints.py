"""Members over HTTP."""

from fastapi import APIRouter

from pock_server.dependencies import KeyAdmin, ServicesDep
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS
from pock_server.members import service
from pock_server.members.repository import Members
from pock_server.members.schemas import MemberChange, MemberIn, MemberOut, MemberPage

router = APIRouter(prefix="/members", tags=["members"], responses=PROBLEMS)


@router.post("", status_code=201)
def add_member(body: MemberIn, caller: KeyAdmin, services: ServicesDep) -> MemberOut:
    """Add a person or script to the workspace; API keys are made for it with `POST /api-keys`."""
    with services.database.write(caller.actor) as unit:
        now = services.clock.now()
        return service.describe(service.add_member(unit, caller.workspace_id, caller.scopes, body, now))


@router.get("")
def list_members(caller: KeyAdmin, services: ServicesDep, page: PageQuery) -> MemberPage:
    """List the workspace's members, disabled ones too."""
    with services.database.read() as session:
        found = Members(session, caller.workspace_id).page(page)
        return MemberPage(items=[service.describe(row) for row in found.rows], next_cursor=found.next_cursor)


@router.get("/{member_id}")
def get_member(member_id: Id, caller: KeyAdmin, services: ServicesDep) -> MemberOut:
    """One member."""
    with services.database.read() as session:
        return service.describe(Members(session, caller.workspace_id).require(member_id))


@router.patch("/{member_id}")
def change_member(member_id: Id, body: MemberChange, caller: KeyAdmin, services: ServicesDep) -> MemberOut:
    """Change a member's name, e-mail or role, disable it, or let it in again."""
    with services.database.write(caller.actor) as unit:
        now = services.clock.now()
        row = service.change_member(unit, caller.workspace_id, caller.scopes, member_id, body, now)
        return service.describe(row)
