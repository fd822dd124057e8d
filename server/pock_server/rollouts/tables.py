"""Rollouts and their devices."""

from datetime import datetime
from typing import Any

from sqlalchemy import Boolean, ForeignKey, Index, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import StatefulRow, WorkspaceRow, page_index


class RolloutRecord(StatefulRow):
    """A release on its way to the devices that a selector chose when it was asked for. Stage 0 is the canary; stage N
    goes as far as the Nth of `stages`, in percent of all."""

    __tablename__ = "rollouts"
    __table_args__ = (page_index("rollouts"), Index("ix_rollouts_state", "state"))

    release_id: Mapped[str] = mapped_column(String(36), ForeignKey("agent_releases.id"))
    version: Mapped[str] = mapped_column(String(20))
    selector: Mapped[str] = mapped_column(String(2000))
    canary: Mapped[int]
    stages: Mapped[list[Any]]
    stage: Mapped[int]
    healthy_seconds: Mapped[int]
    check_in_seconds: Mapped[int]
    max_failed: Mapped[int]
    reason: Mapped[str] = mapped_column(String(500))
    finished_at: Mapped[datetime | None]


class RolloutDeviceRecord(WorkspaceRow):
    """One device of a rollout. `offering`: it is told of an offer when it asks for work; `reverting`: to return."""

    __tablename__ = "rollout_devices"
    __table_args__ = (
        page_index("rollout_devices"),
        Index("uq_rollout_devices_device", "rollout_id", "device_id", unique=True),
        Index("ix_rollout_devices_offering", "device_id", "offering"),
    )

    rollout_id: Mapped[str] = mapped_column(String(36), ForeignKey("rollouts.id"))
    device_id: Mapped[str] = mapped_column(String(36), ForeignKey("devices.id"))
    device_name: Mapped[str] = mapped_column(String(200))
    stage: Mapped[int] = mapped_column(Integer)
    state: Mapped[str] = mapped_column(String(20))
    detail: Mapped[str] = mapped_column(String(500))
    version_before: Mapped[str | None] = mapped_column(String(100))
    offering: Mapped[bool] = mapped_column(Boolean)
    reverting: Mapped[bool] = mapped_column(Boolean)
    checked_in_at: Mapped[datetime | None]
    changed_at: Mapped[datetime]
