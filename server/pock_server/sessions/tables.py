"""Browser sessions."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column, relationship

from pock_server.auth.tables import ApiKeyRecord
from pock_server.db.base import WorkspaceRow, page_index


class BrowserSessionRecord(WorkspaceRow):
    """A signed-in browser; only a hash of its cookie is kept. It can do what its key can, and ends with it."""

    __tablename__ = "browser_sessions"
    __table_args__ = (
        page_index("browser_sessions"),
        Index("ix_browser_sessions_key_id", "key_id"),
        Index("ix_browser_sessions_expires_at", "expires_at"),
    )

    key_id: Mapped[str] = mapped_column(String(36), ForeignKey("api_keys.id"))
    key: Mapped[ApiKeyRecord] = relationship(lazy="joined", innerjoin=True)
    secret_hash: Mapped[str] = mapped_column(String(64))
    expires_at: Mapped[datetime]
    last_used_at: Mapped[datetime]
    address: Mapped[str | None] = mapped_column(String(100))
    user_agent: Mapped[str | None] = mapped_column(String(300))
