"""Blobs that a workspace possesses, and uploads on their way to become blobs."""

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, ForeignKeyConstraint, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import Base, WorkspaceRow


class BlobRecord(Base):
    """A workspace's claim to some bytes. Two workspaces with the same bytes share the object, never the claim.

    `used_at` is when somebody last wanted it: a claim that nothing uses lasts for the grace period from then on.
    `checked_at` is when the object's bytes were last hashed.
    """

    __tablename__ = "blobs"
    __table_args__ = (Index("ix_blobs_digest", "digest"), Index("ix_blobs_checked_at", "checked_at"))

    workspace_id: Mapped[str] = mapped_column(String(36), ForeignKey("workspaces.id"), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    size: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[datetime]
    used_at: Mapped[datetime]
    checked_at: Mapped[datetime]


class BlobUseRecord(Base):
    """A model, dataset, build or run that needs a blob: the database lets nobody remove the claim meanwhile."""

    __tablename__ = "blob_uses"
    __table_args__ = (
        ForeignKeyConstraint(["workspace_id", "digest"], ["blobs.workspace_id", "blobs.digest"]),
        Index("ix_blob_uses_digest", "digest"),
    )

    workspace_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    owner_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), primary_key=True)


class QuarantineRecord(Base):
    """A blob that is missing in the store, or is not what it was; nobody gets it until its bytes are there again."""

    __tablename__ = "quarantined_blobs"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    reason: Mapped[str] = mapped_column(String(200))
    found_at: Mapped[datetime]


class UploadRecord(WorkspaceRow):
    """An upload: `received` bytes of `size` are durable, in so many `parts`.

    When all of them are, one request at a time joins and checks them: `finisher`, in the process `finishing_by`, until
    `finishing_until`.
    """

    __tablename__ = "uploads"

    digest: Mapped[str] = mapped_column(String(64))
    size: Mapped[int] = mapped_column(BigInteger)
    received: Mapped[int] = mapped_column(BigInteger)
    parts: Mapped[int]
    complete: Mapped[bool]
    finisher: Mapped[str | None] = mapped_column(String(36))
    finishing_until: Mapped[datetime | None]
    finishing_by: Mapped[str | None] = mapped_column(String(16))


class UploadPartRecord(Base):
    """One durable stretch of an upload and the object that holds it."""

    __tablename__ = "upload_parts"

    upload_id: Mapped[str] = mapped_column(String(36), ForeignKey("uploads.id", ondelete="CASCADE"), primary_key=True)
    start: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    size: Mapped[int] = mapped_column(BigInteger)
    object_key: Mapped[str] = mapped_column(String(200))
