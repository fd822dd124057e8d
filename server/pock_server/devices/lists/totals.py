"""Counts devices: all of a list, by state and by what they are told apart by."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, case, func, select

from pock_server.devices.presence import is_in
from pock_server.devices.repository import Devices
from pock_server.devices.schemas import DeviceTotals, GroupOut
from pock_server.devices.states import DeviceState
from pock_server.devices.tables import DeviceRecord

MOST_GROUPS = 100


def totals(devices: Devices, since: datetime, filters: Iterable[ColumnElement[bool]]) -> DeviceTotals:
    """Of the devices that meet the filters, by one query; `since` is what `heard_since` says."""
    state = case(*((is_in(each, since), str(each)) for each in DeviceState))
    names = (DeviceRecord.pool, DeviceRecord.target, DeviceRecord.agent_version)
    rests = case((DeviceRecord.resting.is_not(None), 1), else_=0)
    slowed = case((DeviceRecord.throttled.is_(True), 1), else_=0)
    query = select(state, *names, func.count(), func.sum(slowed), func.sum(rests)).select_from(DeviceRecord)
    mine = query.where(DeviceRecord.workspace_id == devices.workspace_id, *filters)
    states: Counter[DeviceState] = Counter()
    groups: tuple[Counter[str], ...] = (Counter(), Counter(), Counter())
    throttled = resting = 0
    for found, *told, count, slow, rest in devices.session.execute(mine.group_by(state, *names)):
        states[DeviceState(found)] += count
        throttled, resting = throttled + slow, resting + rest
        for group, name in zip(groups, told, strict=True):
            if name is not None:
                group[name] += count
    pools, targets, agents = map(_largest, groups)
    return DeviceTotals(
        total=sum(states.values()),
        states=dict(states),
        throttled=throttled,
        resting=resting,
        pools=pools,
        targets=targets,
        agent_versions=agents,
    )


def _largest(group: Counter[Any]) -> list[GroupOut]:
    kept = sorted(group.items(), key=lambda entry: (-entry[1], entry[0]))[:MOST_GROUPS]
    return [GroupOut(name=name, count=count) for name, count in sorted(kept)]
