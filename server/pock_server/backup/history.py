"""When the last backup was made: the audit log says so, because a backup holds everybody's data."""

from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from pock_server.audit.service import WHOLE_SERVICE, Action, Subject, made, record
from pock_server.audit.tables import AuditRecord
from pock_server.db.unit import Unit

_SUBJECT = Subject("backup", WHOLE_SERVICE)


def note_backup(unit: Unit, file: str, blobs: int, absent: int, now: datetime) -> None:
    """A backup of so many blobs is whole, and lies in a file of this name; damaged ones are absent."""
    size = made(blobs=blobs, absent=absent)
    record(unit, Action.BACKUP_MAKE, _SUBJECT, file[:200], now, size)


def last_backup(session: Session) -> datetime | None:
    """When the last one was whole; None if there is none that the audit log still knows."""
    mine = (AuditRecord.workspace_id == _SUBJECT.workspace_id) & (AuditRecord.object_id == _SUBJECT.id)
    return session.scalar(
        select(func.max(AuditRecord.created_at)).where(mine, AuditRecord.action == Action.BACKUP_MAKE)
    )
