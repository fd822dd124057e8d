"""Uploaded datasets."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import page_index
from pock_server.names.tables import VersionedRow, version_indexes


class DatasetRecord(VersionedRow):
    """A safetensors file with one tensor per model input plus labels, leading dimension `samples`.

    With a `device_id`, it lies on that device alone; `gone_at` is when the device no longer told of it.
    """

    __tablename__ = "datasets"
    __table_args__ = (page_index("datasets"), *version_indexes("datasets"), Index("ix_datasets_device_id", "device_id"))

    digest: Mapped[str] = mapped_column(String(64))
    size: Mapped[int] = mapped_column(BigInteger)
    samples: Mapped[int] = mapped_column(BigInteger)
    tensors: Mapped[list[Any]]
    device_id: Mapped[str | None] = mapped_column(String(36))
    gone_at: Mapped[datetime | None]
