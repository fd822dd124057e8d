"""Workspaces, the border that no query crosses, and the API keys that open them."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column, relationship

from pock_server.db.base import Base, WorkspaceRow, page_index
from pock_server.members.tables import MemberRecord


class WorkspaceRecord(Base):
    """One team's models, builds, devices and runs.

    `last_build_at` is when a runner began a build of it last; `quotas` has those limits that are not the settings'.
    """

    __tablename__ = "workspaces"

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    name: Mapped[str] = mapped_column(String(200), unique=True)
    created_at: Mapped[datetime]
    last_build_at: Mapped[datetime | None]
    quotas: Mapped[dict[str, Any] | None]


class ApiKeyRecord(WorkspaceRow):
    """A key of the user API; only a hash of its secret is kept. A key without a member stands for itself."""

    __tablename__ = "api_keys"
    __table_args__ = (page_index("api_keys"), Index("ix_api_keys_member_id", "member_id"))

    name: Mapped[str] = mapped_column(String(200))
    scopes: Mapped[list[Any]]
    secret_hash: Mapped[str] = mapped_column(String(64))
    expires_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]
    member_id: Mapped[str | None] = mapped_column(String(36), ForeignKey("members.id"))
    member: Mapped[MemberRecord | None] = relationship(lazy="joined")
