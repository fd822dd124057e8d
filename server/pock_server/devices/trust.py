"""Devices trust the signing key that they pinned when they enrolled: a service with another has no work for them."""

from datetime import datetime

from sqlalchemy import func, inspect, select, update

from pock_server.db.unit import Database, Unit
from pock_server.devices.repository import Devices
from pock_server.devices.schemas import DeviceStatus
from pock_server.devices.service import revoke
from pock_server.devices.tables import DeviceRecord
from pock_server.services import Services

_TRUSTING = DeviceRecord.status != DeviceStatus.REVOKED


class KeyNotTrusted(Exception):
    """The service must not start; the message says what to do."""


def secure_key(services: Services) -> None:
    """Make the signing key of a new service; raises `KeyNotTrusted` where the fleet trusts another one."""
    signer, known = services.signer, _trusted(services.database)
    if not signer.path.exists():
        if known:
            raise KeyNotTrusted(
                f"the signing key {signer.path} is gone, and {sum(known.values())} devices take work that is signed "
                f"with it alone: {_WAYS_OUT}"
            )
        signer.create()
    strangers = {key: count for key, count in known.items() if key not in (signer.key_id, None)}
    if strangers:
        named = ", ".join(f"{key} ({count} devices)" for key, count in sorted(strangers.items()))
        raise KeyNotTrusted(
            f"the signing key {signer.path} is {signer.key_id}, but the fleet trusts {named}: {_WAYS_OUT}"
        )
    if None in known:  # they enrolled before keys were noted, and this service had this key then
        with services.database.write() as unit:
            unit.session.execute(
                update(DeviceRecord).where(DeviceRecord.signing_key_id.is_(None)).values(signing_key_id=signer.key_id)
            )


_WAYS_OUT = (
    "put the key back from a backup, or give those devices up with `pock-server revoke-devices` and enrol them again"
)


def _trusted(database: Database) -> dict[str | None, int]:
    """Keys and how many devices trust each; None are devices of before this was noted. Nothing before the migration."""
    schema = inspect(database.engine)
    columns = schema.get_columns("devices") if schema.has_table("devices") else []
    if "signing_key_id" not in {column["name"] for column in columns}:
        return {}
    query = select(DeviceRecord.signing_key_id, func.count()).where(_TRUSTING).group_by(DeviceRecord.signing_key_id)
    with database.read() as session:
        return dict(session.execute(query).all())


def revoke_strangers(unit: Unit, key_id: str | None, now: datetime) -> list[DeviceRecord]:
    """Revoke every device, of all workspaces, that does not trust the key; None is trusted by none."""
    query = select(DeviceRecord).where(_TRUSTING)
    if key_id is not None:
        query = query.where(DeviceRecord.signing_key_id != key_id)
    devices = list(unit.session.scalars(query))
    return [revoke(unit, Devices(unit.session, device.workspace_id), device.id, now) for device in devices]
