"""Uploaded datasets."""

from typing import Any

from sqlalchemy import BigInteger, String
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import WorkspaceRow, page_index


class DatasetRecord(WorkspaceRow):
    """A safetensors file with one tensor per model input plus labels, leading dimension `samples`."""

    __tablename__ = "datasets"
    __table_args__ = (page_index("datasets"),)

    name: Mapped[str] = mapped_column(String(200))
    digest: Mapped[str] = mapped_column(String(64))
    size: Mapped[int] = mapped_column(BigInteger)
    samples: Mapped[int] = mapped_column(BigInteger)
    tensors: Mapped[list[Any]]
