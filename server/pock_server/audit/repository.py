"""Queries on the audit log."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, delete, select, tuple_
from sqlalchemy.orm import Session

from pock_server.audit.tables import AuditRecord
from pock_server.db.repository import Repository
from pock_server.db.unit import Database

_BATCH = 500


class AuditLog(Repository[AuditRecord]):
    """The entries of one workspace."""

    row_class = AuditRecord
    noun = "audit entry"


@dataclass(frozen=True)
class Filter:
    """Which entries are wanted; None wants all. Times are `since` <= entry < `until`."""

    workspace_id: str | None = None
    action: str | None = None
    object_kind: str | None = None
    object_id: str | None = None
    member_id: str | None = None
    key_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """The same as conditions of a query."""
        names = ("workspace_id", "action", "object_kind", "object_id", "member_id", "key_id")
        wanted = [(getattr(AuditRecord, name), getattr(self, name)) for name in names]
        found: list[ColumnElement[bool]] = [column == value for column, value in wanted if value is not None]
        if self.since is not None:
            found.append(AuditRecord.created_at >= self.since)
        if self.until is not None:
            found.append(AuditRecord.created_at < self.until)
        return found


def export(database: Database, wanted: Filter) -> Iterator[list[AuditRecord]]:
    """All wanted entries, oldest first, in batches, each read in a transaction of its own: a slow reader holds none."""
    order = (AuditRecord.created_at, AuditRecord.id)
    query = select(AuditRecord).where(*wanted.conditions()).order_by(*order).limit(_BATCH)
    following = query
    while True:
        with database.read() as session:
            rows = list(session.scalars(following))
        if rows:
            yield rows
        if len(rows) < _BATCH:
            return
        following = query.where(tuple_(*order) > tuple_(rows[-1].created_at, rows[-1].id))


def drop_before(session: Session, moment: datetime, limit: int) -> int:
    """Delete at most `limit` entries older than `moment`, of all workspaces; how many there were."""
    old = select(AuditRecord.id).where(AuditRecord.created_at < moment).order_by(AuditRecord.created_at).limit(limit)
    ids = list(session.scalars(old))
    session.execute(delete(AuditRecord).where(AuditRecord.id.in_(ids)))
    return len(ids)
