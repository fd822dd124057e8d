"""Members of workspaces."""

from datetime import datetime

from sqlalchemy import Index, String
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import WorkspaceRow, page_index


class MemberRecord(WorkspaceRow):
    """A person or script. Members are disabled, never deleted: the audit log names them."""

    __tablename__ = "members"
    __table_args__ = (page_index("members"), Index("uq_members_name", "workspace_id", "name", unique=True))

    name: Mapped[str] = mapped_column(String(200))
    email: Mapped[str | None] = mapped_column(String(254))
    role: Mapped[str] = mapped_column(String(20))
    disabled_at: Mapped[datetime | None]
