"""Runs and their steps."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Float, ForeignKey, Index, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import Base, StatefulRow, page_index


class RunRecord(StatefulRow):
    """One piece of work for one device. `fence` grows with every lease; writes with an older one are refused."""

    __tablename__ = "runs"
    __table_args__ = (
        page_index("runs"),
        Index("ix_runs_device_state", "device_id", "state"),
        Index("ix_runs_state", "state"),
    )

    build_id: Mapped[str] = mapped_column(String(36), ForeignKey("builds.id"))
    device_id: Mapped[str] = mapped_column(String(36), ForeignKey("devices.id"))
    device_name: Mapped[str] = mapped_column(String(200))
    target: Mapped[str] = mapped_column(String(100))
    dataset_id: Mapped[str] = mapped_column(String(36), ForeignKey("datasets.id"))
    eval_dataset_id: Mapped[str | None] = mapped_column(String(36), ForeignKey("datasets.id"))
    entry: Mapped[str] = mapped_column(String(20))
    steps: Mapped[int]
    threads: Mapped[int]
    seed: Mapped[int] = mapped_column(BigInteger)
    save_weights: Mapped[bool]
    deadline_seconds: Mapped[float] = mapped_column(Float)
    queue_ends_at: Mapped[datetime | None]
    run_ends_at: Mapped[datetime | None]
    fence: Mapped[int]
    lease_expires_at: Mapped[datetime | None]
    next_seq: Mapped[int]
    progress: Mapped[dict[str, Any] | None]
    report: Mapped[dict[str, Any] | None]
    weights_digest: Mapped[str | None] = mapped_column(String(64))
    failure: Mapped[dict[str, Any] | None]
    finished_at: Mapped[datetime | None]

    def holder(self) -> dict[str, str]:
        """The device, and the build that it runs."""
        return {"device_id": self.device_id, "build_id": self.build_id}


class RunStepRecord(Base):
    """One training step of one lease of a run."""

    __tablename__ = "run_steps"

    run_id: Mapped[str] = mapped_column(String(36), ForeignKey("runs.id"), primary_key=True)
    fence: Mapped[int] = mapped_column(Integer, primary_key=True)
    step: Mapped[int] = mapped_column(Integer, primary_key=True)
    loss: Mapped[float | None] = mapped_column(Float)
    ms: Mapped[float | None] = mapped_column(Float)
