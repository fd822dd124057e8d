"""Searches for which parameters to train."""

from typing import Any

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import WorkspaceRow, page_index


class SearchRecord(WorkspaceRow):
    """What is asked of a search, and what it found. The build with the same id is how it is done: that one has its
    state, target, base recipe and failure.

    `options` are what the compiler's search is called with; `name` is for the recipe that is found, and `recipe_id`
    that recipe. `found` is what lists show; `result_digest` is of the whole as JSON, `report_digest` of the page.
    """

    __tablename__ = "searches"
    __table_args__ = (
        page_index("searches"),
        *(Index(f"ix_searches_{column}", column) for column in ("model_id", "dataset_id", "eval_dataset_id")),
    )

    model_id: Mapped[str] = mapped_column(String(36), ForeignKey("models.id"))
    dataset_id: Mapped[str] = mapped_column(String(36), ForeignKey("datasets.id"))
    eval_dataset_id: Mapped[str | None] = mapped_column(String(36), ForeignKey("datasets.id"))
    name: Mapped[str] = mapped_column(String(200))
    options: Mapped[dict[str, Any]]
    found: Mapped[dict[str, Any] | None]
    recipe_id: Mapped[str | None] = mapped_column(String(36))
    result_digest: Mapped[str | None] = mapped_column(String(64))
    report_digest: Mapped[str | None] = mapped_column(String(64))
