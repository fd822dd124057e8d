"""Campaigns and their cells."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Boolean, ForeignKey, Index, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import Base, StatefulRow, page_index


class CampaignRecord(StatefulRow):
    """Builds on devices with seeds. `wanted` is what was asked for, `build_ids` the builds, made for it or not.

    `ending` is the state in which a campaign that is stopping will end, and `canary_ended_at` when all cells of its
    canaries had succeeded.
    """

    __tablename__ = "campaigns"
    __table_args__ = (
        page_index("campaigns"),
        Index("ix_campaigns_state", "state"),
        Index("ix_campaigns_schedule_id", "schedule_id"),
    )

    name: Mapped[str] = mapped_column(String(200))
    wanted: Mapped[dict[str, Any]]
    build_ids: Mapped[list[Any]]
    missing_targets: Mapped[list[Any]]
    schedule_id: Mapped[str | None] = mapped_column(String(36))
    ends_at: Mapped[datetime | None]
    canary_ended_at: Mapped[datetime | None]
    ending: Mapped[str | None] = mapped_column(String(20))
    failure: Mapped[dict[str, Any] | None]
    finished_at: Mapped[datetime | None]


class CampaignCellRecord(Base):
    """One build on one device with one seed. Who changes it has locked its campaign.

    `run_id` is its run, or the last try of it; `measured` is what its report says of it, which outlives the run.
    """

    __tablename__ = "campaign_cells"
    __table_args__ = (Index("ix_campaign_cells_state", "campaign_id", "state", "device_id"),)

    campaign_id: Mapped[str] = mapped_column(String(36), ForeignKey("campaigns.id"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    build_id: Mapped[str] = mapped_column(String(36))
    device_id: Mapped[str] = mapped_column(String(36))
    device_name: Mapped[str] = mapped_column(String(200))
    target: Mapped[str] = mapped_column(String(100))
    seed: Mapped[int] = mapped_column(BigInteger)
    canary: Mapped[bool] = mapped_column(Boolean)
    state: Mapped[str] = mapped_column(String(20))
    run_id: Mapped[str | None] = mapped_column(String(36))
    failure: Mapped[dict[str, Any] | None]
    measured: Mapped[dict[str, Any] | None]
    finished_at: Mapped[datetime | None]
