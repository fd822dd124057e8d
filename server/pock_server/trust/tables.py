"""Trust documents and signing keys; they belong to the service, not to a workspace."""

from datetime import datetime
from typing import Any

from sqlalchemy import Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import Base


class TrustDocumentRecord(Base):
    """One version of the trust document as it was signed. Versions follow each other without a gap."""

    __tablename__ = "trust_documents"

    version: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    created_at: Mapped[datetime]
    payload: Mapped[str] = mapped_column(Text)
    signatures: Mapped[list[Any]]


class SigningKeyRecord(Base):
    """A key that signs work, or did. The private half is encrypted, and erased when nobody needs it any more."""

    __tablename__ = "signing_keys"

    key_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    created_at: Mapped[datetime]
    public_key: Mapped[str] = mapped_column(String(44))
    wrapped: Mapped[str | None] = mapped_column(String(200))
    published_in: Mapped[int | None] = mapped_column(Integer)
    revoked_at: Mapped[datetime | None]
