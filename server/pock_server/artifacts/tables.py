"""Artifacts."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import Base


class ArtifactRecord(Base):
    """A `.pock` file of a workspace: where it came from and which blobs its members are."""

    __tablename__ = "artifacts"

    workspace_id: Mapped[str] = mapped_column(String(36), ForeignKey("workspaces.id"), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    size: Mapped[int] = mapped_column(BigInteger)
    build_id: Mapped[str] = mapped_column(String(36), ForeignKey("builds.id"))
    members: Mapped[dict[str, Any]]
    executable: Mapped[str] = mapped_column(String(200))
    inputs: Mapped[list[Any]]
    created_at: Mapped[datetime]
