"""Benchmarks."""

from datetime import datetime
from typing import Any

from sqlalchemy import Index, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import StatefulRow, page_index


class BenchmarkRecord(StatefulRow):
    """A build measured on a device. It outlives its run, its build and its model, so it says what they were called.

    series   SHA-256 of what has to be the same for two benchmarks to be of one series
    repeats_wanted, repeats   how many there are to be; what each has measured, with `verdict`, once it is over
    machine  facts that the device is known by, as they were then
    """

    __tablename__ = "benchmarks"
    __table_args__ = (
        page_index("benchmarks"),
        Index("ix_benchmarks_state", "state"),
        Index("ix_benchmarks_series", "workspace_id", "series", "created_at"),
    )

    run_id: Mapped[str] = mapped_column(String(36))
    build_id: Mapped[str] = mapped_column(String(36))
    build_name: Mapped[str] = mapped_column(String(200))
    build_version: Mapped[int] = mapped_column(Integer)
    model_name: Mapped[str] = mapped_column(String(200))
    recipe_name: Mapped[str | None] = mapped_column(String(200))
    device_id: Mapped[str] = mapped_column(String(36))
    device_name: Mapped[str] = mapped_column(String(200))
    device_kind: Mapped[str] = mapped_column(String(300))
    target: Mapped[str] = mapped_column(String(100))
    series: Mapped[str] = mapped_column(String(64))
    threads: Mapped[int]
    steps: Mapped[int]
    warmup_steps: Mapped[int]
    repeats_wanted: Mapped[int]
    cool_down_seconds: Mapped[int]
    priority: Mapped[int]
    baseline_id: Mapped[str | None] = mapped_column(String(36))
    machine: Mapped[dict[str, Any]]
    repeats: Mapped[list[Any] | None]
    verdict: Mapped[dict[str, Any] | None]
    failure: Mapped[dict[str, Any] | None]
    finished_at: Mapped[datetime | None]

    def holder(self) -> dict[str, str]:
        """The device, the build, and the run that measures."""
        return {"device_id": self.device_id, "build_id": self.build_id, "run_id": self.run_id}
