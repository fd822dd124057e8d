"""Workspaces, the border that no query crosses, and the API keys that open them."""

from datetime import datetime
from typing import Any

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import Base, WorkspaceRow, page_index


class WorkspaceRecord(Base):
    """One team's models, builds, devices and runs."""

    __tablename__ = "workspaces"

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    name: Mapped[str] = mapped_column(String(200), unique=True)
    created_at: Mapped[datetime]


class ApiKeyRecord(WorkspaceRow):
    """A key of the user API; only a hash of its secret is kept."""

    __tablename__ = "api_keys"
    __table_args__ = (page_index("api_keys"),)

    name: Mapped[str] = mapped_column(String(200))
    scopes: Mapped[list[Any]]
    secret_hash: Mapped[str] = mapped_column(String(64))
    expires_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]
