"""Schedules, and the times that they were due."""

from datetime import datetime
from typing import Any

from sqlalchemy import Boolean, ForeignKey, Index, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import WorkspaceRow, page_index


class ScheduleRecord(WorkspaceRow):
    """Something that is asked for again and again. `next_at` is when it is due next, None while it is not enabled."""

    __tablename__ = "schedules"
    __table_args__ = (page_index("schedules"), Index("ix_schedules_next_at", "next_at"))

    name: Mapped[str] = mapped_column(String(200))
    cron: Mapped[str] = mapped_column(String(100))
    timezone: Mapped[str] = mapped_column(String(64))
    what: Mapped[dict[str, Any]]
    skip_if_running: Mapped[bool] = mapped_column(Boolean)
    enabled: Mapped[bool] = mapped_column(Boolean)
    next_at: Mapped[datetime | None]


class ScheduleTimeRecord(WorkspaceRow):
    """A time that a schedule was due, and what became of it; `missed` ones before it passed while nobody looked."""

    __tablename__ = "schedule_times"
    __table_args__ = (Index("ix_schedule_times_page", "schedule_id", "created_at", "id"),)

    schedule_id: Mapped[str] = mapped_column(String(36), ForeignKey("schedules.id"))
    due_at: Mapped[datetime]
    missed: Mapped[int] = mapped_column(Integer)
    outcome: Mapped[str] = mapped_column(String(20))
    detail: Mapped[str | None] = mapped_column(String(1000))
    campaign_id: Mapped[str | None] = mapped_column(String(36))
    benchmark_id: Mapped[str | None] = mapped_column(String(36))
