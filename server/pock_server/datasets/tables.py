"""Uploaded datasets."""

from typing import Any

from sqlalchemy import BigInteger, String
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import page_index
from pock_server.names.tables import VersionedRow, version_indexes


class DatasetRecord(VersionedRow):
    """A safetensors file with one tensor per model input plus labels, leading dimension `samples`."""

    __tablename__ = "datasets"
    __table_args__ = (page_index("datasets"), *version_indexes("datasets"))

    digest: Mapped[str] = mapped_column(String(64))
    size: Mapped[int] = mapped_column(BigInteger)
    samples: Mapped[int] = mapped_column(BigInteger)
    tensors: Mapped[list[Any]]
