"""The chain of trust documents in the database: what the next version says, and its publication."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from pock_server.db.locks import Lock, hold
from pock_server.db.unit import Unit
from pock_server.signing import Signer, key_id_of
from pock_server.trust.documents import BadDocument, Trust, follow, read
from pock_server.trust.keyring import KeyRing, find_document, latest_version
from pock_server.trust.schemas import TrustDocument
from pock_server.trust.tables import SigningKeyRecord, TrustDocumentRecord
from pock_server.trust.wrapping import CannotUnwrap

LIFE_DAYS = 365
RENEW_DAYS = 90
"""A document that ends sooner is replaced by the service itself, where it has the root key."""


@dataclass(frozen=True)
class Change:
    """What the next version is to change. `root_keys` and `threshold` None: as they are."""

    new_signing_key: bool = True
    root_keys: tuple[str, ...] | None = None
    threshold: int | None = None
    days: int = LIFE_DAYS


def latest(session: Session) -> Trust | None:
    """The newest version, or None before the first."""
    document = find_document(session, latest_version(session))
    return None if document is None else read(document)


def draft(unit: Unit, keys: KeyRing, change: Change, now: datetime) -> Trust:
    """The next version, which nobody has signed yet. Its new signing key is in the database already, used by nobody."""
    before = latest(unit.session)
    usable = [key for key in before.signing_keys if _is_usable(unit.session, keys, key)] if before else []
    if change.new_signing_key or not usable:
        usable = [_spare(unit.session, keys, now).public_key]
    root_keys = change.root_keys or (before.root_keys if before else None)
    if root_keys is None:
        raise BadDocument("this service has no keys yet; start it once: pock-server serve")
    trust = Trust(
        version=before.version + 1 if before else 1,
        issued_at=now.replace(microsecond=0),
        expires_at=now.replace(microsecond=0) + timedelta(days=change.days),
        root_keys=root_keys,
        threshold=change.threshold or (before.threshold if before and change.root_keys is None else 1),
        signing_keys=tuple(usable),
    )
    read(trust.draft())  # refuses too many keys, a key twice, a threshold that nobody can reach
    return trust


def publish(unit: Unit, keys: KeyRing, document: TrustDocument, now: datetime) -> Trust:
    """Make the document the newest version; raises BadDocument if an agent would refuse it, or nobody here could sign
    work by it. Two that publish one version at a time meet at the primary key."""
    trust = follow(document, latest(unit.session))
    if trust.expires_at <= now:
        raise BadDocument(f"the document expired at {trust.expires_at.isoformat()}")
    for key in trust.signing_keys:
        try:
            keys.signer(unit.session, key_id_of(key))
        except CannotUnwrap as error:
            raise BadDocument(f"the document names a signing key that this service cannot use: {error}") from None
    signatures = [signature.model_dump() for signature in document.signatures]
    unit.session.add(
        TrustDocumentRecord(version=trust.version, created_at=now, payload=document.payload, signatures=signatures)
    )
    for row in _rows(unit.session, trust.signing_keys):
        row.published_in = row.published_in or trust.version
    unit.session.flush()
    return trust


def add_signing_key(session: Session, keys: KeyRing, signer: Signer, now: datetime) -> SigningKeyRecord:
    """Store the key, wrapped. The wrapping key is made with the first key that lies under it, and never again."""
    hold(session, Lock.MAKE_KEYS)  # nobody changes the wrapping key until this one is committed
    if session.scalar(select(func.count()).where(SigningKeyRecord.wrapped.is_not(None))) == 0:
        keys.wrapping.create()
    row = SigningKeyRecord(
        key_id=signer.key_id,
        created_at=now,
        public_key=signer.public_key,
        wrapped=keys.wrapping.wrap(signer),
        published_in=None,
        revoked_at=None,
    )
    session.add(row)
    session.flush()
    return row


def revoke_keys(session: Session, key_ids: Collection[str], now: datetime) -> None:
    """Never sign with these again: their private halves are erased. Raises BadDocument for an unknown one."""
    rows = list(session.scalars(select(SigningKeyRecord).where(SigningKeyRecord.key_id.in_(key_ids))))
    if unknown := set(key_ids) - {row.key_id for row in rows}:
        raise BadDocument(f"there is no signing key {', '.join(sorted(unknown))}; see `pock-server trust show`")
    for row in rows:
        row.wrapped, row.revoked_at = None, row.revoked_at or now


def erase_retired(session: Session, needed: Iterable[str | None]) -> None:
    """Erase the private halves of keys that the newest version no longer names, and no device needs."""
    trust = latest(session)
    kept = {key_id for key_id in needed if key_id} | {key_id_of(key) for key in (trust.signing_keys if trust else ())}
    query = select(SigningKeyRecord).where(SigningKeyRecord.published_in.is_not(None))
    for row in session.scalars(query.where(SigningKeyRecord.key_id.not_in(kept))):
        row.wrapped = None


def _spare(session: Session, keys: KeyRing, now: datetime) -> SigningKeyRecord:
    """A key that no version names: that of a draft which was never published, or a new one."""
    unpublished = SigningKeyRecord.published_in.is_(None) & SigningKeyRecord.wrapped.is_not(None)
    for row in session.scalars(select(SigningKeyRecord).where(unpublished)):
        if _is_usable(session, keys, row.public_key):
            return row
    return add_signing_key(session, keys, Signer.generate(), now)


def _is_usable(session: Session, keys: KeyRing, public_key: str) -> bool:
    try:
        keys.signer(session, key_id_of(public_key))
    except CannotUnwrap:
        return False
    return True


def _rows(session: Session, public_keys: Sequence[str]) -> list[SigningKeyRecord]:
    ids = [key_id_of(key) for key in public_keys]
    return list(session.scalars(select(SigningKeyRecord).where(SigningKeyRecord.key_id.in_(ids))))
