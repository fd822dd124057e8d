"""Recipes."""

from typing import Any

from sqlalchemy import Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import page_index
from pock_server.names.tables import VersionedRow, version_indexes


class RecipeRecord(VersionedRow):
    """A recipe as somebody wrote it, with the SHA-256 of that text, and what it says; of one that a search found, that
    search and the model."""

    __tablename__ = "recipes"
    __table_args__ = (
        page_index("recipes"),
        *version_indexes("recipes"),
        Index("ix_recipes_model_id", "model_id"),
    )

    digest: Mapped[str] = mapped_column(String(64))
    text: Mapped[str] = mapped_column(Text)
    content: Mapped[dict[str, Any]]
    model_id: Mapped[str | None] = mapped_column(String(36))
    search_id: Mapped[str | None] = mapped_column(String(36))
