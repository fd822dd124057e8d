"""Uploaded models."""

from typing import Any

from sqlalchemy import BigInteger, String
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import page_index
from pock_server.names.tables import VersionedRow, version_indexes


class ModelRecord(VersionedRow):
    """An ONNX file and the external data files that it names."""

    __tablename__ = "models"
    __table_args__ = (page_index("models"), *version_indexes("models"))

    digest: Mapped[str] = mapped_column(String(64))
    size: Mapped[int] = mapped_column(BigInteger)
    external: Mapped[dict[str, Any]]
