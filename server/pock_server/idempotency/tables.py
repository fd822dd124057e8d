"""Remembered requests."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import Base


class IdempotencyRecord(Base):
    """A request with a key; `status` is null while it is being served, by the process `holder`."""

    __tablename__ = "idempotency_keys"

    workspace_id: Mapped[str] = mapped_column(String(36), ForeignKey("workspaces.id"))
    principal_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    route: Mapped[str] = mapped_column(String(100), primary_key=True)
    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    body_hash: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime] = mapped_column(index=True)
    holder: Mapped[str | None] = mapped_column(String(16))
    status: Mapped[int | None]
    answer: Mapped[dict[str, Any] | None]
