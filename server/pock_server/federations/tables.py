"""Federations and their rounds."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Float, ForeignKey, Index, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import Base, StatefulRow, page_index


class FederationRecord(StatefulRow):
    """Federated training. `asked` is what was asked for; `round` is the one that it is at; `ends_at` ends its present
    state; `attempt` counts aggregations of it that failed. `noise_key` is never shown.

    The row keeps the blobs of its newest weights and of FedAdam's moments.
    """

    __tablename__ = "federations"
    __table_args__ = (page_index("federations"), Index("ix_federations_state", "state"))

    name: Mapped[str] = mapped_column(String(200))
    build_id: Mapped[str] = mapped_column(String(36), ForeignKey("builds.id"))
    asked: Mapped[dict[str, Any]]
    noise_key: Mapped[str] = mapped_column(String(64))
    round: Mapped[int] = mapped_column(Integer)
    ends_at: Mapped[datetime | None]
    weights_digest: Mapped[str | None] = mapped_column(String(64))
    weights_bytes: Mapped[int | None] = mapped_column(BigInteger)
    full_weights_bytes: Mapped[int | None] = mapped_column(BigInteger)
    moments_digest: Mapped[str | None] = mapped_column(String(64))
    up_bytes: Mapped[int] = mapped_column(BigInteger)
    down_bytes: Mapped[int] = mapped_column(BigInteger)
    full_bytes: Mapped[int] = mapped_column(BigInteger)
    rejected: Mapped[int] = mapped_column(Integer)
    epsilon: Mapped[float | None] = mapped_column(Float)
    failure: Mapped[dict[str, Any] | None]
    finished_at: Mapped[datetime | None]

    def holder(self) -> dict[str, str]:
        """The build that its devices run."""
        return {"build_id": self.build_id}


class FederationRoundRecord(Base):
    """A round: its `members` as `RoundMemberOut` has them, without what their runs say."""

    __tablename__ = "federation_rounds"

    federation_id: Mapped[str] = mapped_column(String(36), ForeignKey("federations.id"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    members: Mapped[list[Any]]
    loss: Mapped[float | None] = mapped_column(Float)
    step_norm: Mapped[float | None] = mapped_column(Float)
    weights_digest: Mapped[str | None] = mapped_column(String(64))
    up_bytes: Mapped[int] = mapped_column(BigInteger)
    down_bytes: Mapped[int] = mapped_column(BigInteger)
    began_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]
