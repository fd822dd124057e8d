"""Policies of devices and pools."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import WorkspaceRow


class PolicyRecord(WorkspaceRow):
    """The rules for one device or for the devices of one pool: one of the two is set."""

    __tablename__ = "policies"
    __table_args__ = (
        Index("uq_policies_device_id", "device_id", unique=True),
        Index("uq_policies_pool", "workspace_id", "pool", unique=True),
    )

    device_id: Mapped[str | None] = mapped_column(String(36), ForeignKey("devices.id"))
    pool: Mapped[str | None] = mapped_column(String(200))
    rules: Mapped[dict[str, Any]]
    changed_at: Mapped[datetime]
