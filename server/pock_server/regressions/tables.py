"""Regressions."""

from sqlalchemy import Float, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import WorkspaceRow, page_index


class RegressionRecord(WorkspaceRow):
    """A slowdown in one series: `since_id` is the first benchmark of those that are slower, `found_id` the one that
    made it certain. `ratio` has its 95 % interval."""

    __tablename__ = "regressions"
    __table_args__ = (
        page_index("regressions"),
        Index("ix_regressions_series", "workspace_id", "series", "created_at"),
    )

    series: Mapped[str] = mapped_column(String(64))
    model_name: Mapped[str] = mapped_column(String(200))
    recipe_name: Mapped[str | None] = mapped_column(String(200))
    target: Mapped[str] = mapped_column(String(100))
    device_kind: Mapped[str] = mapped_column(String(300))
    threads: Mapped[int]
    since_id: Mapped[str] = mapped_column(String(36))
    found_id: Mapped[str] = mapped_column(String(36))
    build_name: Mapped[str] = mapped_column(String(200))
    build_version: Mapped[int]
    ratio: Mapped[float] = mapped_column(Float)
    interval_low: Mapped[float] = mapped_column(Float)
    interval_high: Mapped[float] = mapped_column(Float)
    p_value: Mapped[float] = mapped_column(Float)
