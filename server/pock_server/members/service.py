"""Adds and changes members. Nobody gives, or takes from others, more than they can do themselves."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from pock_server.audit.service import Action, changed, made, record
from pock_server.auth.repository import lock_workspace
from pock_server.auth.roles import SCOPES_OF, Role
from pock_server.auth.schemas import Scope
from pock_server.auth.service import refuse_escalation
from pock_server.clock import new_id
from pock_server.db.unit import Unit
from pock_server.http.problems import Failure, Problem
from pock_server.members.repository import Members
from pock_server.members.schemas import MemberChange, MemberIn, MemberOut
from pock_server.members.tables import MemberRecord
from pock_server.sessions.repository import end_sessions_of_member


def add_member(unit: Unit, workspace_id: str, power: Collection[Scope], order: MemberIn, now: datetime) -> MemberRecord:
    """Add a member; `power` is what the one who adds can do. A 409 `Problem` says that the name is taken."""
    refuse_escalation(power, SCOPES_OF[order.role])
    lock_workspace(unit.session, workspace_id)
    members = Members(unit.session, workspace_id)
    _refuse_taken(members, order.name)
    row = MemberRecord(
        id=new_id(now),
        workspace_id=workspace_id,
        created_at=now,
        name=order.name,
        email=order.email,
        role=order.role,
        disabled_at=None,
    )
    members.add(row)
    record(unit, Action.MEMBER_ADD, row, row.name, now, made(email=row.email, role=row.role))
    return row


def change_member(
    unit: Unit, workspace_id: str, power: Collection[Scope], member_id: str, order: MemberChange, now: datetime
) -> MemberRecord:
    """Change what `order` names; a disabled member's sessions end.

    Raises a 403 `Problem` for a member, or a role, that can do more than `power`, and a 409 one for a name that is
    taken or for the last admin: a workspace that has admins keeps one. Changes of one workspace's members take turns,
    so two admins who demote each other at once do not both succeed.
    """
    lock_workspace(unit.session, workspace_id)
    members = Members(unit.session, workspace_id)
    row = members.require(member_id)
    before = _facts(row)
    refuse_escalation(power, SCOPES_OF[Role(row.role)] | SCOPES_OF[order.role or Role(row.role)])
    was_admin = row.role == Role.ADMIN and row.disabled_at is None
    if order.name is not None and order.name != row.name:
        _refuse_taken(members, order.name)
        row.name = order.name
    row.email = order.email or row.email
    row.role = order.role or row.role
    if order.disabled is not None:
        row.disabled_at = (row.disabled_at or now) if order.disabled else None
    unit.session.flush()
    if was_admin and members.count_admins() == 0:
        detail = f"{row.name} is the last admin of this workspace; make somebody else an admin first."
        raise Problem(Failure.STATE_CONFLICT, detail)
    if row.disabled_at is not None:
        end_sessions_of_member(unit.session, row.id)
    changes = changed(before, _facts(row))
    if changes:
        record(unit, Action.MEMBER_CHANGE, row, row.name, now, changes)
    return row


def _refuse_taken(members: Members, name: str) -> None:
    if members.named(name) is not None:
        raise Problem(Failure.STATE_CONFLICT, f"This workspace has a member named {name}; choose another name.")


def _facts(row: MemberRecord) -> dict[str, Any]:
    return {"name": row.name, "email": row.email, "role": str(row.role), "disabled": row.disabled_at is not None}


def describe(row: MemberRecord) -> MemberOut:
    """The member as the API shows it."""
    return MemberOut(
        id=row.id,
        name=row.name,
        email=row.email,
        role=Role(row.role),
        created_at=row.created_at,
        disabled_at=row.disabled_at,
    )
