"""Devices that do no work for now, because a policy forbids it: what they tell of it, and what is shown."""

from collections.abc import Collection
from datetime import datetime

from pock_server.db.unit import Database
from pock_server.devices.repository import Devices
from pock_server.devices.schemas import RestIn, RestOut
from pock_server.devices.sessions import AgentCaller
from pock_server.devices.tables import DeviceRecord


def rest_of(device: DeviceRecord) -> RestOut | None:
    """Why the device rests, as the API shows it."""
    return None if device.resting is None else RestOut(**device.resting)


def rests_of(devices: Devices, ids: Collection[str]) -> dict[str, RestOut]:
    """Why these devices rest, of those that do, by their ids."""
    rows = devices.session.scalars(devices.select().where(DeviceRecord.id.in_(ids)))
    return {row.id: rest for row in rows if (rest := rest_of(row)) is not None}


def note_rest(database: Database, agent: AgentCaller, device: DeviceRecord, told: RestIn | None, now: datetime) -> None:
    """Keep what a heartbeat tells, where that is something new."""
    before = rest_of(device)
    if told is None and before is None:
        return
    if told is not None and before is not None and (told.reason, told.until) == (before.reason, before.until):
        return
    since = now if before is None else before.since
    with database.write() as unit:
        row = Devices(unit.session, agent.workspace_id).require(agent.device_id)
        row.resting = None if told is None else {"since": since.isoformat(), **told.model_dump(mode="json")}
