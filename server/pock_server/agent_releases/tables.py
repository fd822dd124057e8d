"""Releases of the agent."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import WorkspaceRow, page_index


class AgentReleaseRecord(WorkspaceRow):
    """A release document as it was signed, and what it says. `payload_digest` is the SHA-256 of its payload's text;
    `rank` orders versions."""

    __tablename__ = "agent_releases"
    __table_args__ = (
        page_index("agent_releases"),
        Index("uq_agent_releases_payload", "workspace_id", "payload_digest", unique=True),
    )

    version: Mapped[str] = mapped_column(String(20))
    rank: Mapped[int] = mapped_column(BigInteger)
    payload: Mapped[str] = mapped_column(Text)
    payload_digest: Mapped[str] = mapped_column(String(64))
    signatures: Mapped[list[Any]]
    files: Mapped[dict[str, Any]]
    issued_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    downgrade: Mapped[bool]
    revert: Mapped[bool]
    notes: Mapped[str] = mapped_column(String(2000))
