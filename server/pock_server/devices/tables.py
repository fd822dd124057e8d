"""Devices and the tokens that let them in."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Boolean, Float, ForeignKey, Index, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import Base, WorkspaceRow, page_index


class EnrolmentTokenRecord(WorkspaceRow):
    """A one-off invitation; only a hash of its secret is kept."""

    __tablename__ = "enrolment_tokens"

    name: Mapped[str | None] = mapped_column(String(200))
    pool: Mapped[str] = mapped_column(String(200))
    labels: Mapped[dict[str, Any] | None]
    secret_hash: Mapped[str] = mapped_column(String(64))
    expires_at: Mapped[datetime]
    used_at: Mapped[datetime | None]


class DeviceRecord(WorkspaceRow):
    """A device; it has at most one session, and its counters only grow.

    Of its facts, those that devices are chosen and sorted by are columns as well. `agent_rank` orders the versions of
    agents.
    """

    __tablename__ = "devices"
    __table_args__ = (
        page_index("devices"),
        Index("uq_devices_session_id", "session_id", unique=True),
    )

    name: Mapped[str] = mapped_column(String(200))
    pool: Mapped[str] = mapped_column(String(200))
    status: Mapped[str] = mapped_column(String(20))
    public_key: Mapped[str] = mapped_column(String(44))
    target: Mapped[str | None] = mapped_column(String(100))
    facts: Mapped[dict[str, Any]]
    agent_version: Mapped[str | None] = mapped_column(String(100))
    agent_rank: Mapped[int | None] = mapped_column(BigInteger)
    arch: Mapped[str | None] = mapped_column(String(40))
    memory_bytes: Mapped[int | None] = mapped_column(BigInteger)
    cores: Mapped[int | None] = mapped_column(Integer)
    temperature_c: Mapped[float | None] = mapped_column(Float)
    throttled: Mapped[bool | None] = mapped_column(Boolean)
    last_seen_at: Mapped[datetime | None]
    current_run_id: Mapped[str | None] = mapped_column(String(36))
    signing_key_id: Mapped[str | None] = mapped_column(String(16))
    trust_version: Mapped[int | None] = mapped_column(Integer)
    session_counter: Mapped[int] = mapped_column(Integer)
    session_issued_at: Mapped[datetime | None]
    session_id: Mapped[str | None] = mapped_column(String(36))
    session_hash: Mapped[str | None] = mapped_column(String(64))
    session_expires_at: Mapped[datetime | None]
    work_counter: Mapped[int] = mapped_column(Integer)
    work_signed_at: Mapped[datetime | None]
    resting: Mapped[dict[str, Any] | None]
    policy_counter: Mapped[int] = mapped_column(Integer, server_default="0")
    policy_digest: Mapped[str | None] = mapped_column(String(64))
    data_digest: Mapped[str | None] = mapped_column(String(64))
    token_id: Mapped[str] = mapped_column(String(36), ForeignKey("enrolment_tokens.id"))


class DeviceLabelRecord(Base):
    """What operators say about a device."""

    __tablename__ = "device_labels"

    device_id: Mapped[str] = mapped_column(String(36), ForeignKey("devices.id"), primary_key=True)
    key: Mapped[str] = mapped_column(String(63), primary_key=True)
    value: Mapped[str] = mapped_column(String(200))
