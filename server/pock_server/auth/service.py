"""Makes, checks and revokes API keys."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from pock_server.actor import Actor
from pock_server.audit.service import Action, Subject, made, record
from pock_server.auth import secrets
from pock_server.auth.repository import ApiKeys, require_workspace_named
from pock_server.auth.roles import SCOPES_OF, Role
from pock_server.auth.schemas import ApiKeyCreated, ApiKeyIn, ApiKeyOut, Scope
from pock_server.auth.tables import ApiKeyRecord, WorkspaceRecord
from pock_server.clock import new_id
from pock_server.db.insert import insert_if_absent
from pock_server.db.unit import Unit
from pock_server.http.problems import Failure, Problem
from pock_server.members.repository import Members
from pock_server.sessions.repository import end_sessions_of_key

_CHALLENGE = {"WWW-Authenticate": "Bearer"}


@dataclass(frozen=True)
class Caller:
    """The person or script behind a request."""

    workspace_id: str
    key_id: str
    scopes: frozenset[Scope]
    actor: Actor

    def demand(self, *any_of: Scope) -> None:
        """Raise a 403 `Problem` unless the caller has one of the scopes; none at all asks for nothing."""
        if any_of and not self.scopes.intersection(any_of):
            wanted = " or ".join(map(str, any_of))
            raise Problem(Failure.SCOPE_MISSING, f"This call needs the scope {wanted}, which {self.actor.name} lacks.")


def granted(row: ApiKeyRecord) -> frozenset[Scope]:
    """What the key can do now: its own scopes, and of a member's key only those that the member's role still has."""
    own = frozenset(Scope(scope) for scope in row.scopes)
    return own if row.member is None else own & SCOPES_OF[Role(row.member.role)]


def refuse_dead(row: ApiKeyRecord, now: datetime) -> None:
    """Raise a 401 `Problem` if the key was revoked or has expired, or its member is disabled."""
    if row.revoked_at is not None:
        raise Problem(Failure.KEY_REVOKED, "This API key was revoked; ask for a new one.", _CHALLENGE)
    if row.expires_at <= now:
        detail = f"This API key expired at {row.expires_at.isoformat()}; ask for a new one."
        raise Problem(Failure.KEY_EXPIRED, detail, _CHALLENGE)
    if row.member is not None and row.member.disabled_at is not None:
        detail = f"The member {row.member.name} is disabled; ask an admin of the workspace."
        raise Problem(Failure.MEMBER_DISABLED, detail, _CHALLENGE)


def unknown_key() -> Problem:
    """What is answered to who sends no key, or one that is not known here."""
    detail = "Send an API key of this service as `Authorization: Bearer pk_<id>_<secret>`."
    return Problem(Failure.KEY_UNKNOWN, detail, _CHALLENGE)


def find_or_add_workspace(unit: Unit, name: str, now: datetime) -> WorkspaceRecord:
    """The workspace of this name, made if there is none."""
    new = insert_if_absent(unit.session, WorkspaceRecord, id=new_id(now), name=name, created_at=now)
    if new is None:
        return require_workspace_named(unit.session, name)
    record(unit, Action.WORKSPACE_CREATE, Subject(new.id, new.id), new.name, now)
    return new


def create_key(unit: Unit, workspace_id: str, order: ApiKeyIn, now: datetime) -> ApiKeyCreated:
    """Make a key; the answer holds the only copy of its secret. A 403 `Problem` names what its member's role lacks."""
    member = Members(unit.session, workspace_id).require(order.member_id) if order.member_id else None
    if member is not None:
        lacking = sorted(set(order.scopes) - SCOPES_OF[Role(member.role)])
        if lacking:
            detail = f"{member.name} is {member.role}, which lacks: {', '.join(lacking)}."
            raise Problem(Failure.SCOPE_MISSING, detail)
    credential = secrets.generate(secrets.Kind.API_KEY, new_id(now))
    row = ApiKeyRecord(
        id=credential.row_id,
        workspace_id=workspace_id,
        name=order.name,
        scopes=sorted({str(s) for s in order.scopes}),
        secret_hash=credential.hash,
        created_at=now,
        expires_at=now + timedelta(days=order.ttl_days),
        revoked_at=None,
        member=member,
    )
    ApiKeys(unit.session, workspace_id).add(row)
    changes = made(scopes=row.scopes, expires_at=row.expires_at.isoformat(), member=member.name if member else None)
    record(unit, Action.API_KEY_CREATE, row, row.name, now, changes)
    return ApiKeyCreated(**describe(row).model_dump(), key=credential.text)


def refuse_escalation(power: Collection[Scope], wanted: Collection[Scope]) -> None:
    """Raise a 403 `Problem` unless whoever has `power` may deal with what can do `wanted`."""
    missing = sorted(set(wanted) - set(power))
    if missing:
        raise Problem(Failure.SCOPE_MISSING, f"Nobody can grant or take what they lack: {', '.join(missing)}.")


def revoke_key(unit: Unit, row: ApiKeyRecord, now: datetime) -> None:
    """End a key and its sessions now; revoking it again changes nothing."""
    if ApiKeys(unit.session, row.workspace_id).revoke(row.id, now):
        end_sessions_of_key(unit.session, row.id)
        record(unit, Action.API_KEY_REVOKE, row, row.name, now)


def describe(row: ApiKeyRecord) -> ApiKeyOut:
    """The key as the API shows it."""
    return ApiKeyOut(
        id=row.id,
        name=row.name,
        scopes=[Scope(s) for s in row.scopes],
        member_id=row.member_id,
        member_name=row.member.name if row.member else None,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )
