"""Queries on API keys and workspaces."""

from datetime import datetime

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import Session

from pock_server.actor import Actor
from pock_server.auth.tables import ApiKeyRecord, WorkspaceRecord
from pock_server.db.repository import Repository


class ApiKeys(Repository[ApiKeyRecord]):
    """The keys of one workspace."""

    row_class = ApiKeyRecord
    noun = "API key"

    def revoke(self, key_id: str, now: datetime) -> bool:
        """End the key; False if it was revoked before, be it a moment ago by another request."""
        valid = update(ApiKeyRecord).where(
            ApiKeyRecord.workspace_id == self.workspace_id,
            ApiKeyRecord.id == key_id,
            ApiKeyRecord.revoked_at.is_(None),
        )
        return self.session.execute(valid.values(revoked_at=now).returning(ApiKeyRecord.id)).first() is not None


def find_key_anywhere(session: Session, key_id: str) -> ApiKeyRecord | None:
    """The key with this id. Its workspace is what authentication finds out, so none can be given."""
    return session.get(ApiKeyRecord, key_id)


def own_keys(actor: Actor) -> ColumnElement[bool]:
    """The keys of the actor's member; of a key without a member, that key."""
    if actor.member_id is not None:
        return ApiKeyRecord.member_id == actor.member_id
    return ApiKeyRecord.id == (actor.key_id or "")


def require_workspace(session: Session, workspace_id: str) -> WorkspaceRecord:
    """The workspace that a caller was found to belong to."""
    return session.get_one(WorkspaceRecord, workspace_id)


def find_workspace(session: Session, name: str) -> WorkspaceRecord | None:
    """The workspace of this name."""
    return session.scalars(select(WorkspaceRecord).where(WorkspaceRecord.name == name)).one_or_none()


def require_workspace_named(session: Session, name: str) -> WorkspaceRecord:
    """The workspace of this name, which is known to exist."""
    return session.scalars(select(WorkspaceRecord).where(WorkspaceRecord.name == name)).one()


def lock_workspace(session: Session, workspace_id: str) -> None:
    """Wait until no other transaction holds this workspace, and hold it until this one ends."""
    session.execute(select(WorkspaceRecord.id).where(WorkspaceRecord.id == workspace_id).with_for_update())
