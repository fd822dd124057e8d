"""Runs and their steps."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Boolean, Float, ForeignKey, Index, Integer, String, false
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import Base, StatefulRow, page_index


class RunRecord(StatefulRow):
    """One piece of work for one device. `fence` grows with every lease; writes with an older one are refused.

    `part_of`: the longer work that asked for it, see `pock_server.runner.duties`. Of the runs that wait for a device it
    takes the one with the highest `priority`, but none before its `not_before`. A benchmark needs no dataset; `bench`
    says how it is repeated.

    `after_build_id` or `after_run_id`: what a waiting run waits for. `retries`: how often it may be tried again, by
    class of failure; `retry` counts the tries before this one, `retry_of` and `retried_by` name the last one and the
    next one. `queue_seconds`: how long it may wait for its device.

    `weights_form` is as what trained weights should come, `weights_sent_as` what they came as; null is safetensors, as
    it was before there were deltas.
    """

    __tablename__ = "runs"
    __table_args__ = (
        page_index("runs"),
        Index("ix_runs_device_state", "device_id", "state"),
        Index("ix_runs_state", "state"),
        Index("ix_runs_part_of", "part_of"),
    )

    build_id: Mapped[str] = mapped_column(String(36), ForeignKey("builds.id"))
    device_id: Mapped[str] = mapped_column(String(36), ForeignKey("devices.id"))
    device_name: Mapped[str] = mapped_column(String(200))
    target: Mapped[str] = mapped_column(String(100))
    dataset_id: Mapped[str | None] = mapped_column(String(36), ForeignKey("datasets.id"))
    eval_dataset_id: Mapped[str | None] = mapped_column(String(36), ForeignKey("datasets.id"))
    entry: Mapped[str] = mapped_column(String(20))
    steps: Mapped[int]
    threads: Mapped[int]
    seed: Mapped[int] = mapped_column(BigInteger)
    save_weights: Mapped[bool]
    held_out: Mapped[dict[str, Any] | None]
    profile: Mapped[bool] = mapped_column(Boolean, server_default=false())
    deadline_seconds: Mapped[float] = mapped_column(Float)
    part_of: Mapped[str | None] = mapped_column(String(36))
    priority: Mapped[int] = mapped_column(Integer, server_default="0")
    bench: Mapped[dict[str, Any] | None]
    not_before: Mapped[datetime | None]
    after_build_id: Mapped[str | None] = mapped_column(String(36))
    after_run_id: Mapped[str | None] = mapped_column(String(36))
    retries: Mapped[dict[str, Any] | None]
    retry_delay_seconds: Mapped[float | None] = mapped_column(Float)
    retry: Mapped[int] = mapped_column(Integer, server_default="0")
    retry_of: Mapped[str | None] = mapped_column(String(36))
    retried_by: Mapped[str | None] = mapped_column(String(36))
    queue_seconds: Mapped[float | None] = mapped_column(Float)
    queue_ends_at: Mapped[datetime | None]
    run_ends_at: Mapped[datetime | None]
    paused: Mapped[dict[str, Any] | None]
    seconds_left: Mapped[float | None] = mapped_column(Float)
    paused_seconds: Mapped[float] = mapped_column(Float, server_default="0")
    fence: Mapped[int]
    lease_expires_at: Mapped[datetime | None]
    next_seq: Mapped[int]
    progress: Mapped[dict[str, Any] | None]
    report: Mapped[dict[str, Any] | None]
    weights_form: Mapped[str | None] = mapped_column(String(20))
    initial_weights_digest: Mapped[str | None] = mapped_column(String(64))
    weights_digest: Mapped[str | None] = mapped_column(String(64))
    weights_sent_as: Mapped[str | None] = mapped_column(String(20))
    weights_bytes: Mapped[int | None] = mapped_column(BigInteger)
    full_weights_bytes: Mapped[int | None] = mapped_column(BigInteger)
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
