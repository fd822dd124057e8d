"""Which key a device believes: by the trust document that it has, or the one key that it pinned when it enrolled."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Select, func, select, update
from sqlalchemy.orm import Session

from pock_server.db.unit import Database, Unit
from pock_server.devices.repository import Devices
from pock_server.devices.service import revoke
from pock_server.devices.sessions import AgentCaller
from pock_server.devices.states import DeviceStatus
from pock_server.devices.tables import DeviceRecord
from pock_server.http.problems import Failure, Problem
from pock_server.signing import Signer
from pock_server.trust.keyring import KeyRing
from pock_server.trust.wrapping import CannotUnwrap

_ENROLLED = DeviceRecord.status != DeviceStatus.REVOKED
_PINNED = _ENROLLED & DeviceRecord.trust_version.is_(None)


def count_pinned(session: Session) -> dict[str | None, int]:
    """Signing keys, and how many devices believe each of them alone. None are devices of before this was noted."""
    query = select(DeviceRecord.signing_key_id, func.count()).where(_PINNED).group_by(DeviceRecord.signing_key_id)
    return dict(session.execute(query).all())


def count_versions(session: Session) -> dict[int, int]:
    """Versions of the trust document, and how many devices have each."""
    query = select(DeviceRecord.trust_version, func.count()).where(_ENROLLED, DeviceRecord.trust_version.is_not(None))
    found = session.execute(query.group_by(DeviceRecord.trust_version)).all()
    return {version: count for version, count in found if version is not None}


def note_trust(database: Database, agent: AgentCaller, version: int | None) -> None:
    """Remember which trust document the agent says it has; None for one that knows of none."""
    with database.write() as unit:
        Devices(unit.session, agent.workspace_id).require(agent.device_id).trust_version = version


def note_pinned(unit: Unit, key_id: str) -> None:
    """Devices that enrolled before keys were noted pinned this one: the service had no other."""
    unit.session.execute(
        update(DeviceRecord).where(DeviceRecord.signing_key_id.is_(None)).values(signing_key_id=key_id)
    )


def revoke_pinned(unit: Unit, key_ids: Collection[str], now: datetime) -> list[DeviceRecord]:
    """Revoke every device, of all workspaces, that believes one of these keys alone."""
    return _revoke(unit, select(DeviceRecord).where(_PINNED, DeviceRecord.signing_key_id.in_(key_ids)), now)


def revoke_strangers(unit: Unit, key_ids: Collection[str], now: datetime) -> list[DeviceRecord]:
    """Revoke every device, of all workspaces, that believes one key alone, and none of these."""
    query = select(DeviceRecord).where(_PINNED)
    if key_ids:
        query = query.where(DeviceRecord.signing_key_id.not_in(key_ids))
    return _revoke(unit, query, now)


def revoke_everyone(unit: Unit, now: datetime) -> list[DeviceRecord]:
    """Revoke every device of all workspaces."""
    return _revoke(unit, select(DeviceRecord).where(_ENROLLED), now)


def _revoke(unit: Unit, query: Select[DeviceRecord], now: datetime) -> list[DeviceRecord]:
    devices = list(unit.session.scalars(query))
    return [revoke(unit, Devices(unit.session, device.workspace_id), device.id, now) for device in devices]


def signer_for(session: Session, keys: KeyRing, device: DeviceRecord, trust: int | None) -> Signer:
    """The key that the agent believes, which has this version of the trust document; raises a 401 `Problem` if that is
    one which was revoked."""
    if trust is not None or device.signing_key_id is None:
        return keys.current(session).signer
    try:
        return keys.signer(session, device.signing_key_id)
    except CannotUnwrap:
        detail = f"This device believes only the key {device.signing_key_id}, which was revoked; enrol it again."
        raise Problem(Failure.DEVICE_REVOKED, detail) from None
