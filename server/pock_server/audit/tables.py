"""Entries of the audit log."""

from typing import Any

from sqlalchemy import Index, String
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import WorkspaceRow, page_index


class AuditRecord(WorkspaceRow):
    """One change. No foreign key: an entry stays when its workspace, its object and its actor are gone."""

    __tablename__ = "audit_entries"
    __table_args__ = (
        page_index("audit_entries"),
        Index("ix_audit_entries_object_id", "workspace_id", "object_id"),
        Index("ix_audit_entries_created_at", "created_at"),
    )

    workspace_id: Mapped[str] = mapped_column(String(36))
    action: Mapped[str] = mapped_column(String(50))
    object_kind: Mapped[str] = mapped_column(String(50))
    object_id: Mapped[str] = mapped_column(String(64))
    object_name: Mapped[str] = mapped_column(String(200))
    changes: Mapped[dict[str, Any]]
    actor_kind: Mapped[str] = mapped_column(String(20))
    actor_name: Mapped[str] = mapped_column(String(200))
    member_id: Mapped[str | None] = mapped_column(String(36))
    key_id: Mapped[str | None] = mapped_column(String(36))
    session_id: Mapped[str | None] = mapped_column(String(36))
    device_id: Mapped[str | None] = mapped_column(String(36))
    address: Mapped[str | None] = mapped_column(String(100))
    user_agent: Mapped[str | None] = mapped_column(String(300))
    request_id: Mapped[str | None] = mapped_column(String(100))
