"""What the compiler can do."""

from datetime import datetime
from typing import Any

from sqlalchemy import Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import Base


class CompilerRecord(Base):
    """The compiler as the worker that started last described it: one row, of id 1, for all processes and hosts."""

    __tablename__ = "compilers"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    version: Mapped[str] = mapped_column(String(200))
    targets: Mapped[list[Any]]
    described_at: Mapped[datetime]
