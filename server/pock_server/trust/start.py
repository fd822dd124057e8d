"""What a service does about its keys before it serves.

It makes those of a new service, and refuses to go on without those of an old one.
"""

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta

from sqlalchemy import delete, inspect, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from pock_server.db.locks import Lock, hold
from pock_server.db.unit import Database, Unit
from pock_server.devices.tables import DeviceRecord
from pock_server.devices.trust import count_pinned, note_pinned, revoke_everyone, revoke_strangers
from pock_server.services import Services
from pock_server.settings import UnusableSetting
from pock_server.signing import Signer, create_key, key_id_of, read_key
from pock_server.trust.chain import RENEW_DAYS, Change, add_signing_key, draft, latest, publish, revoke_keys
from pock_server.trust.documents import Trust, sign
from pock_server.trust.keyring import KeyRing
from pock_server.trust.tables import SigningKeyRecord, TrustDocumentRecord
from pock_server.trust.wrapping import CannotUnwrap

_log = logging.getLogger(__name__)


class KeyNotTrusted(Exception):
    """The service must not start; the message says what to do."""


def secure_keys(services: Services) -> None:
    """Make the keys of a new service, take over those of an older one, renew what ends soon.

    Raises `KeyNotTrusted` where a key that devices believe is lost or another. Does nothing before the migration.
    """
    if not _migrated(services.database):
        return
    try:
        _secure(services)
    except IntegrityError:  # another process of a new service was first; now its keys are there
        _secure(services)
    renew(services)


def renew(services: Services) -> None:
    """Publish a successor of a document that ends soon, where this host has the one root key that it takes."""
    now = services.clock.now()
    with services.database.read() as session:
        trust = _ending(session, now)
    if trust is None:
        return
    root = _online_root(services, trust)
    if root is None:
        _log.warning("trust document %d ends at %s: sign the next one", trust.version, trust.expires_at.isoformat())
        return
    with services.database.write() as unit:
        hold(unit.session, Lock.MAKE_KEYS)
        if _ending(unit.session, now) is not None:  # of processes that start together one renews it
            _publish_next(unit, services.keys, root, Change(new_signing_key=False), now)


def _ending(session: Session, now: datetime) -> Trust | None:
    """The newest document, if it ends soon."""
    trust = latest(session)
    return None if trust is None or trust.expires_at - now > timedelta(days=RENEW_DAYS) else trust


def give_up(unit: Unit, services: Services, everyone: bool) -> list[DeviceRecord]:
    """Revoke the devices that believe only lost keys, and these keys; `everyone`: all devices, and the whole chain."""
    now, rows = services.clock.now(), _kept_keys(unit.session)
    usable = {row.key_id for row in rows if not everyone and _trouble(services.keys, row) is None}
    revoke_keys(unit.session, {row.key_id for row in rows} - usable, now)
    if everyone:
        unit.session.execute(delete(TrustDocumentRecord))
        return revoke_everyone(unit, now)
    taken_over = None if latest(unit.session) else _legacy_signer(unit.session, services)
    return revoke_strangers(unit, usable | ({taken_over.key_id} if taken_over else set()), now)


def _migrated(database: Database) -> bool:
    schema = inspect(database.engine)
    return schema.has_table("trust_documents") and "trust_version" in {
        column["name"] for column in schema.get_columns("devices")
    }


def _secure(services: Services) -> None:
    now = services.clock.now()
    with services.database.write() as unit:
        hold(unit.session, Lock.MAKE_KEYS)  # processes that start together wait for each other
        trust = latest(unit.session)
        trust = _begin(unit, services, now) if trust is None else _go_on(unit, services, trust, now)
        note_pinned(unit, services.keys.current(unit.session).signer.key_id)


def _begin(unit: Unit, services: Services, now: datetime) -> Trust:
    """The first version; the key of a service of before trust documents becomes its signing key."""
    path, signer = services.settings.legacy_signing_key_file, _legacy_signer(unit.session, services)
    pinned = count_pinned(unit.session)
    if signer is None and pinned:
        raise KeyNotTrusted(
            f"the signing key {path} is gone, and {sum(pinned.values())} devices take work that is signed with it "
            f"alone: {_WAYS_OUT}"
        )
    strangers = {key: count for key, count in pinned.items() if key and (signer is None or key != signer.key_id)}
    if signer is not None and strangers:
        raise KeyNotTrusted(
            f"the signing key {path} is {signer.key_id}, but the fleet trusts {_counted(strangers)}: {_WAYS_OUT}"
        )
    path = services.settings.effective_root_key_file
    try:
        root = create_key(path)
    except OSError as error:
        raise UnusableSetting.place("POCK_ROOT_KEY_FILE", path, error.strerror or str(error)) from None
    if signer is not None:
        add_signing_key(unit.session, services.keys, signer, now)
    return _publish_next(unit, services.keys, root, Change(root_keys=(root.public_key,)), now)


def _go_on(unit: Unit, services: Services, trust: Trust, now: datetime) -> Trust:
    """Check every key that is needed; a document whose signing keys were all given up gets a successor."""
    rows, pinned = _kept_keys(unit.session), count_pinned(unit.session)
    for row in rows:
        trouble = _trouble(services.keys, row)
        if trouble is not None:
            raise KeyNotTrusted(f"{trouble}, and {sum(pinned.values())} devices believe no other key: {_WAYS_OUT}")
    kept = {row.key_id for row in rows}
    strangers = {key: count for key, count in pinned.items() if key and key not in kept}
    if strangers:
        raise KeyNotTrusted(f"the fleet trusts {_counted(strangers)}, which the database lacks: {_WAYS_OUT}")
    if kept & {key_id_of(key) for key in trust.signing_keys}:
        return trust
    root = _online_root(services, trust)
    if root is None:
        raise KeyNotTrusted(
            f"no signing key of trust document {trust.version} is left, and its root key is not here: sign the next "
            "one with `pock-server rotate-keys --root-key FILE`, or begin anew with `pock-server revoke-devices --all`"
        )
    return _publish_next(unit, services.keys, root, Change(), now)


_WAYS_OUT = (
    "put the key back from a backup, or give those devices up with `pock-server revoke-devices` and enrol them again"
)


def _publish_next(unit: Unit, keys: KeyRing, root: Signer, change: Change, now: datetime) -> Trust:
    return publish(unit, keys, sign(draft(unit, keys, change, now).draft(), [root]), now)


def _online_root(services: Services, trust: Trust) -> Signer | None:
    """The root key that this host has, if it alone can sign the next version."""
    path = services.settings.effective_root_key_file
    if not path.exists():
        return None
    root = read_key(path)
    return root if root.public_key in trust.root_keys and trust.threshold == 1 else None


def _legacy_signer(session: Session, services: Services) -> Signer | None:
    path = services.settings.legacy_signing_key_file
    if not path.exists():
        return None
    signer = read_key(path)
    return None if session.get(SigningKeyRecord, signer.key_id) else signer


def _kept_keys(session: Session) -> list[SigningKeyRecord]:
    return list(session.scalars(select(SigningKeyRecord).where(SigningKeyRecord.wrapped.is_not(None))))


def _trouble(keys: KeyRing, row: SigningKeyRecord) -> str | None:
    """Why the key cannot be used; asks the file, not what this process remembers."""
    try:
        keys.wrapping.unwrap(row.wrapped or "", row.key_id)
    except CannotUnwrap as error:
        return str(error)
    return None


def _counted(keys: Mapping[str, int]) -> str:
    return ", ".join(f"{key} ({count} devices)" for key, count in sorted(keys.items()))
