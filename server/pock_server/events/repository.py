"""Queries on events."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, delete, func, or_, select
from sqlalchemy.orm import Session

from pock_server.events.tables import EventRecord

BATCH = 500


class Events:
    """The events of one workspace."""

    def __init__(self, session: Session, workspace_id: str) -> None:
        self.session = session
        self.workspace_id = workspace_id

    def append(self, subject_id: str, kind: str, data: dict[str, Any], now: datetime) -> None:
        """Add an event. Writers of one subject have locked, changed or just made its row: no number is taken twice."""
        last = self.session.scalar(select(func.max(EventRecord.seq)).where(EventRecord.subject_id == subject_id)) or 0
        self.session.add(
            EventRecord(
                subject_id=subject_id,
                seq=last + 1,
                workspace_id=self.workspace_id,
                kind=kind,
                data=data,
                created_at=now,
            )
        )
        self.session.flush()

    def forget(self, subject_id: str) -> None:
        """Delete the history of something that is being deleted."""
        self.session.execute(delete(EventRecord).where(*self._mine(subject_id)))

    def after(self, subject_id: str, seq: int) -> list[EventRecord]:
        """The next events after `seq`, at most `BATCH`."""
        query = self._history(subject_id).where(EventRecord.seq > seq).limit(BATCH)
        return list(self.session.scalars(query))

    def after_each(self, positions: Mapping[str, int]) -> list[EventRecord]:
        """The next events of each subject after its own number, at most `BATCH` of all, in each subject's order."""
        if not positions:
            return []
        wanted = [and_(EventRecord.subject_id == each, EventRecord.seq > seq) for each, seq in positions.items()]
        query = (
            select(EventRecord)
            .where(EventRecord.workspace_id == self.workspace_id, or_(*wanted))
            .order_by(EventRecord.subject_id, EventRecord.seq)
            .limit(BATCH)
        )
        return list(self.session.scalars(query))

    def of_kind(self, subject_id: str, kind: str) -> list[EventRecord]:
        """All events of one kind, in order."""
        return list(self.session.scalars(self._history(subject_id).where(EventRecord.kind == kind)))

    def but(self, subject_id: str, kind: str) -> list[EventRecord]:
        """All events of other kinds, in order."""
        return list(self.session.scalars(self._history(subject_id).where(EventRecord.kind != kind)))

    def count(self, subject_id: str, kind: str) -> int:
        """How many there are of a kind."""
        query = select(func.count()).select_from(EventRecord).where(*self._mine(subject_id), EventRecord.kind == kind)
        return self.session.scalar(query) or 0

    def _history(self, subject_id: str) -> Select[EventRecord]:
        return select(EventRecord).where(*self._mine(subject_id)).order_by(EventRecord.seq)

    def _mine(self, subject_id: str) -> tuple[ColumnElement[bool], ...]:
        return EventRecord.workspace_id == self.workspace_id, EventRecord.subject_id == subject_id
