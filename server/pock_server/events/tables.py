"""The history of builds and runs."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import Base


class EventRecord(Base):
    """One thing that happened to a build or run; `seq` counts from 1 and is the SSE id."""

    __tablename__ = "events"

    subject_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    seq: Mapped[int] = mapped_column(Integer, primary_key=True)
    workspace_id: Mapped[str] = mapped_column(String(36), ForeignKey("workspaces.id"))
    kind: Mapped[str] = mapped_column(String(20))
    data: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
