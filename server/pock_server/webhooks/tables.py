"""Webhooks and what was, or is to be, sent to them."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Boolean, ForeignKey, Index, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import WorkspaceRow, page_index


class Event(StrEnum):
    """What is told. A name keeps its meaning; others may come."""

    BENCHMARK_FINISHED = "benchmark.finished"
    """A benchmark is over, well or not."""
    REGRESSION_FOUND = "regression.found"
    """A step has become slower."""
    RUN_FAILED = "run.failed"
    """A run is over, and failed."""
    CAMPAIGN_FINISHED = "campaign.finished"
    """All runs of a campaign are over, or it was stopped."""


class DeliveryState(StrEnum):
    """Where a delivery stands."""

    PENDING = "pending"
    """It is sent, or sent again, at its `next_at`."""
    DELIVERED = "delivered"
    """The address has answered that it has it."""
    FAILED = "failed"
    """It was given up."""


class WebhookRecord(WorkspaceRow):
    """An address that wants to be told of `events`. Its secret is encrypted; `failing_since`: the first of the failures
    after the last success."""

    __tablename__ = "webhooks"
    __table_args__ = (page_index("webhooks"),)

    url: Mapped[str] = mapped_column(String(2000))
    events: Mapped[list[Any]]
    description: Mapped[str | None] = mapped_column(String(200))
    wrapped_secret: Mapped[str] = mapped_column(String(400))
    enabled: Mapped[bool] = mapped_column(Boolean)
    failing_since: Mapped[datetime | None]
    disabled_reason: Mapped[str | None] = mapped_column(String(500))


class DeliveryRecord(WorkspaceRow):
    """One event for one webhook; `payload` is what is sent, byte for byte. `status` is the last answer's."""

    __tablename__ = "webhook_deliveries"
    __table_args__ = (
        page_index("webhook_deliveries"),
        Index("ix_webhook_deliveries_webhook", "webhook_id", "created_at", "id"),
        Index("ix_webhook_deliveries_due", "state", "next_at"),
    )

    webhook_id: Mapped[str] = mapped_column(String(36), ForeignKey("webhooks.id"))
    event: Mapped[str] = mapped_column(String(40))
    payload: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(20))
    attempts: Mapped[int] = mapped_column(Integer)
    next_at: Mapped[datetime | None]
    status: Mapped[int | None] = mapped_column(Integer)
    problem: Mapped[str | None] = mapped_column(String(500))
    finished_at: Mapped[datetime | None]
