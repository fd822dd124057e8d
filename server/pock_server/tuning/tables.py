"""Tunings, what is known of workloads, what devices measured, and the devices that are not believed."""

from datetime import datetime
from typing import Any

from sqlalchemy import Float, Index, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import StatefulRow, WorkspaceRow, page_index


class TuningRecord(StatefulRow):
    """The search for what is best for one build's unknown workloads, a pack of trials after the other.

    `pack_build_id` is the build of the present pack; `pack` has its workloads as devices number them: {"key",
    "least_ms", "candidates"}; `heard` the runs whose reports were read; `tried` the keys of earlier packs.
    `waits_since` says when something happened last: a pack is given up when no device comes for too long.
    """

    __tablename__ = "tunings"
    __table_args__ = (page_index("tunings"), Index("ix_tunings_state", "state"))

    build_id: Mapped[str] = mapped_column(String(36))
    build_name: Mapped[str] = mapped_column(String(200))
    model_id: Mapped[str] = mapped_column(String(36))
    recipe: Mapped[dict[str, Any]]
    target: Mapped[str] = mapped_column(String(100))
    threads: Mapped[int]
    compiler_version: Mapped[str] = mapped_column(String(200))
    pack_build_id: Mapped[str | None] = mapped_column(String(36))
    packs: Mapped[int]
    pack: Mapped[list[Any]]
    heard: Mapped[list[Any]]
    tried: Mapped[list[Any]]
    decided: Mapped[int]
    waits_since: Mapped[datetime]
    failure: Mapped[dict[str, Any] | None]
    finished_at: Mapped[datetime | None]

    def holder(self) -> dict[str, str]:
        """The build that it is for."""
        return {"build_id": self.build_id}


class EntryRecord(WorkspaceRow):
    """What is known of one workload on one target; `choice` is {"is": ...} once it was decided.

    `inputs` are all that the workload depends on, `key` their SHA-256. `candidates` are those of the pack `pack_id`,
    which measurements number.
    """

    __tablename__ = "tuning_entries"
    __table_args__ = (
        page_index("tuning_entries"),
        Index("uq_tuning_entries_key", "workspace_id", "target", "key", unique=True),
        Index("ix_tuning_entries_decided", "workspace_id", "target", "decided_at"),
    )

    key: Mapped[str] = mapped_column(String(64))
    target: Mapped[str] = mapped_column(String(100))
    family: Mapped[str] = mapped_column(String(100))
    inputs: Mapped[dict[str, Any]]
    candidates: Mapped[list[Any]]
    pack_id: Mapped[str | None] = mapped_column(String(36))
    choice: Mapped[dict[str, Any] | None]
    ms: Mapped[float | None] = mapped_column(Float)
    model_ms: Mapped[float | None] = mapped_column(Float)
    devices: Mapped[int] = mapped_column(Integer)
    source: Mapped[str] = mapped_column(String(20))
    provenance: Mapped[dict[str, Any] | None]
    decided_at: Mapped[datetime | None]


class MeasurementRecord(WorkspaceRow):
    """What one run of a pack found of one workload: for each candidate {"ms", "least", "interval", "wrong"}."""

    __tablename__ = "tuning_measurements"
    __table_args__ = (
        Index("ix_tuning_measurements_key", "workspace_id", "target", "key"),
        Index("ix_tuning_measurements_device", "device_id"),
        Index("uq_tuning_measurements_run", "run_id", "key", unique=True),
    )

    pack_id: Mapped[str] = mapped_column(String(36))
    run_id: Mapped[str] = mapped_column(String(36))
    device_id: Mapped[str] = mapped_column(String(36))
    key: Mapped[str] = mapped_column(String(64))
    target: Mapped[str] = mapped_column(String(100))
    candidates: Mapped[list[Any]]
    standing: Mapped[str] = mapped_column(String(20))
    provenance: Mapped[dict[str, Any]]


class DistrustRecord(WorkspaceRow):
    """A device whose measurements do not count, and why; its id is the device's."""

    __tablename__ = "tuning_distrust"

    reason: Mapped[str] = mapped_column(String(500))
    run_id: Mapped[str] = mapped_column(String(36))
