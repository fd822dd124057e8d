"""Whether a device is there, for one row and as a condition on all of them."""

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, or_

from pock_server.devices.states import DeviceState, DeviceStatus
from pock_server.devices.tables import DeviceRecord

_MISSED_HEARTBEATS = 3


def heard_since(now: datetime, heartbeat: float) -> datetime:
    """Who was seen at this moment or later is there; `heartbeat` is the present interval in seconds."""
    return now - timedelta(seconds=_MISSED_HEARTBEATS * heartbeat)


def state_of(row: DeviceRecord, since: datetime) -> DeviceState:
    """What a person sees of the device; `since` is what `heard_since` says."""
    if row.status != DeviceStatus.ACTIVE:
        return DeviceState(row.status)
    if row.last_seen_at is None or row.last_seen_at < since:
        return DeviceState.OFFLINE
    return DeviceState.BUSY if row.current_run_id else DeviceState.ONLINE


def is_in(state: DeviceState, since: datetime) -> ColumnElement[bool]:
    """The same as a condition: that `state_of` the row is this one. It is never unknown."""
    active, seen = DeviceRecord.status == DeviceStatus.ACTIVE, DeviceRecord.last_seen_at
    if state == DeviceState.OFFLINE:
        return and_(active, or_(seen.is_(None), seen < since))
    if state in (DeviceState.QUARANTINED, DeviceState.REVOKED):
        return DeviceRecord.status == str(state)
    run = DeviceRecord.current_run_id
    free = run.is_(None) if state == DeviceState.ONLINE else run.is_not(None)
    return and_(active, seen.is_not(None), seen >= since, free)
