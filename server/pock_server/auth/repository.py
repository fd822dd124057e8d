"""Queries on API keys and workspaces."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from pock_server.auth.tables import ApiKeyRecord, WorkspaceRecord
from pock_server.clock import new_id
from pock_server.db.insert import insert_if_absent
from pock_server.db.repository import Repository


class ApiKeys(Repository[ApiKeyRecord]):
    """The keys of one workspace."""

    row_class = ApiKeyRecord
    noun = "API key"


def find_key_anywhere(session: Session, key_id: str) -> ApiKeyRecord | None:
    """The key with this id. Its workspace is what authentication finds out, so none can be given."""
    return session.get(ApiKeyRecord, key_id)


def find_or_add_workspace(session: Session, name: str, now: datetime) -> WorkspaceRecord:
    """The workspace of this name, made if there is none."""
    insert_if_absent(session, WorkspaceRecord, id=new_id(now), name=name, created_at=now)
    return session.scalars(select(WorkspaceRecord).where(WorkspaceRecord.name == name)).one()
