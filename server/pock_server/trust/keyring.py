"""The keys that this process signs work with. Another process may rotate them at any time: the database is asked."""

import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from pock_server.db.unit import Database
from pock_server.signing import Signer, key_id_of
from pock_server.trust.documents import Trust, read
from pock_server.trust.schemas import TrustDocument
from pock_server.trust.tables import SigningKeyRecord, TrustDocumentRecord
from pock_server.trust.wrapping import CannotUnwrap, WrappingKey

_LOOK_SECONDS = 2.0
_MAX_CACHED = 64


@dataclass(frozen=True)
class Current:
    """The newest trust document, and the key that signs work by it."""

    document: TrustDocument
    trust: Trust
    signer: Signer


class KeyRing:
    """Unwraps signing keys and remembers them; which of them count is asked of the database each time."""

    def __init__(self, wrapping: WrappingKey) -> None:
        self.wrapping = wrapping
        self._lock = threading.Lock()
        self._signers: dict[str, Signer] = {}
        self._current: Current | None = None
        self._version, self._looked_at = 0, float("-inf")

    def signer(self, session: Session, key_id: str) -> Signer:
        """The private key of this name; raises CannotUnwrap if it was revoked, erased, or lies under another key."""
        row = session.get(SigningKeyRecord, key_id)
        if row is None or row.wrapped is None or row.revoked_at is not None:
            raise CannotUnwrap(f"the service has no signing key {key_id}, or no longer uses it")
        with self._lock:
            if key_id not in self._signers:
                if len(self._signers) >= _MAX_CACHED:
                    self._signers.clear()
                self._signers[key_id] = self.wrapping.unwrap(row.wrapped, key_id)
            return self._signers[key_id]

    def current(self, session: Session) -> Current:
        """The newest document and its key; raises CannotUnwrap if there is none to sign with."""
        version = latest_version(session)
        self._remember(version)
        held = self._current
        if held is not None and held.trust.version == version:
            # A service that began anew has another document of this version, and the key is gone.
            with suppress(CannotUnwrap):
                return Current(held.document, held.trust, self.signer(session, held.signer.key_id))
        document = find_document(session, version)
        if document is None:
            raise CannotUnwrap("the service has no signing key yet; start it once: pock-server serve")
        trust = read(document)
        self._current = Current(document, trust, self._first_usable(session, trust))
        return self._current

    def announced(self, database: Database) -> int:
        """The newest version, at most two seconds old: polls that find no work need no more."""
        if time.monotonic() - self._looked_at > _LOOK_SECONDS:
            with database.read() as session:
                self._remember(latest_version(session))
        return self._version

    def _remember(self, version: int) -> None:
        self._version, self._looked_at = version, time.monotonic()

    def _first_usable(self, session: Session, trust: Trust) -> Signer:
        trouble = CannotUnwrap("the trust document names no signing key")
        for key in trust.signing_keys:
            try:
                return self.signer(session, key_id_of(key))
            except CannotUnwrap as error:
                trouble = error
        raise trouble


def latest_version(session: Session) -> int:
    """The newest version; 0 before the first."""
    return session.scalar(select(func.max(TrustDocumentRecord.version))) or 0


def find_document(session: Session, version: int) -> TrustDocument | None:
    """The document of this version."""
    row = session.get(TrustDocumentRecord, version)
    return None if row is None else TrustDocument(payload=row.payload, signatures=row.signatures)
