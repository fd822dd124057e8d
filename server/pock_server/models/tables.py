"""Uploaded models."""

from typing import Any

from sqlalchemy import BigInteger, String
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import WorkspaceRow, page_index


class ModelRecord(WorkspaceRow):
    """An ONNX file and the external data files that it names."""

    __tablename__ = "models"
    __table_args__ = (page_index("models"),)

    name: Mapped[str] = mapped_column(String(200))
    digest: Mapped[str] = mapped_column(String(64))
    size: Mapped[int] = mapped_column(BigInteger)
    external: Mapped[dict[str, Any]]
