"""Build requests."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, text
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import StatefulRow, page_index
from pock_server.names.tables import VersionedRow, version_indexes

_LIVE = text("state IN ('queued', 'running', 'succeeded') AND retired_at IS NULL")


class BuildRecord(VersionedRow, StatefulRow):
    """A request to compile a model; `key` is the digest of everything that decides its result.

    `recipe` is what its recipe says, and `recipe_id` that recipe, if it was asked for by one that has a name.
    `kind` says what is built; `tuning_id` is the tuning that trials are for.
    `retired_at` is when its artifact was lost or dropped: from then on, the same request makes a new build.
    """

    __tablename__ = "builds"
    __table_args__ = (
        page_index("builds"),
        *version_indexes("builds"),
        # The same request twice is one build; a failed or cancelled one may be tried again.
        Index("uq_builds_live_key", "workspace_id", "key", unique=True, sqlite_where=_LIVE, postgresql_where=_LIVE),
        Index("ix_builds_state", "state"),
        Index("ix_builds_recipe_id", "recipe_id"),
    )

    key: Mapped[str] = mapped_column(String(64))
    kind: Mapped[str] = mapped_column(String(20), server_default="model")
    tune: Mapped[str] = mapped_column(String(20), server_default="off")
    tuning_id: Mapped[str | None] = mapped_column(String(36))
    model_id: Mapped[str] = mapped_column(String(36), ForeignKey("models.id"))
    model_name: Mapped[str] = mapped_column(String(200))
    target: Mapped[str] = mapped_column(String(100))
    threads: Mapped[int]
    priority: Mapped[int] = mapped_column(server_default="0")
    recipe_id: Mapped[str | None] = mapped_column(String(36))
    recipe: Mapped[dict[str, Any]]
    compiler_version: Mapped[str] = mapped_column(String(200))
    lease_expires_at: Mapped[datetime | None]
    progress: Mapped[dict[str, Any] | None]
    summary: Mapped[dict[str, Any] | None]
    artifact_digest: Mapped[str | None] = mapped_column(String(64))
    failure: Mapped[dict[str, Any] | None]
    finished_at: Mapped[datetime | None]
    retired_at: Mapped[datetime | None]
