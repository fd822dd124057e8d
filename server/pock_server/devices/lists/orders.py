"""The orders in which devices are listed. What is not known comes last, whichever way round."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from fastapi import Depends, Query
from sqlalchemy import ColumnElement, Select, and_, case, or_, select

from pock_server.db.repository import RowPage
from pock_server.devices.presence import is_in, state_of
from pock_server.devices.repository import Devices
from pock_server.devices.states import DeviceState
from pock_server.devices.tables import DeviceRecord
from pock_server.http.pages import PageRequest, Position
from pock_server.http.problems import Failure, Problem

MAX_OFFSET = 1_000_000


class DeviceSort(StrEnum):
    """The order of a list of devices; of equal ones the newest comes first."""

    NEWEST = "newest"
    """The last that was enrolled comes first."""
    NAME = "name"
    """By name."""
    STATE = "state"
    """Busy, online, offline, quarantined, revoked."""
    TARGET = "target"
    """By the name of the target."""
    POOL = "pool"
    """By the name of the pool."""
    TEMPERATURE = "temperature"
    """The hottest comes first."""
    MEMORY = "memory"
    """The one with the most memory comes first."""
    AGENT = "agent"
    """The newest version of the agent comes first."""
    SEEN = "seen"
    """The one that was heard last comes first."""


@dataclass(frozen=True)
class Order:
    """Which part of a list is wanted, in which order."""

    sort: DeviceSort
    reverse: bool
    offset: int


async def order(
    sort: Annotated[DeviceSort, Query(description="The order; keep it from page to page.")] = DeviceSort.NEWEST,
    reverse: Annotated[bool, Query(description="The other way round.")] = False,
    offset: Annotated[
        int, Query(ge=0, le=MAX_OFFSET, description="Devices to leave out at the beginning: any part can be had.")
    ] = 0,
) -> Order:
    """What the query string asks for."""
    return Order(sort, reverse, offset)


OrderQuery = Annotated[Order, Depends(order)]

_RANKS = {
    DeviceState.BUSY: 0,
    DeviceState.ONLINE: 1,
    DeviceState.OFFLINE: 2,
    DeviceState.QUARANTINED: 3,
    DeviceState.REVOKED: 4,
}


@dataclass(frozen=True)
class _Key:
    """What is compared: as an expression, and of one row."""

    column: Any
    of: Callable[[DeviceRecord], Any]
    descending: bool = False


def _key(sort: DeviceSort, since: datetime) -> _Key:
    if sort == DeviceSort.STATE:
        rank = case(*((is_in(state, since), number) for state, number in _RANKS.items()), else_=len(_RANKS))
        return _Key(rank, lambda row: _RANKS[state_of(row, since)])
    keys = {
        DeviceSort.NEWEST: _Key(DeviceRecord.id, lambda row: row.id, descending=True),  # which begins with the time
        DeviceSort.NAME: _Key(DeviceRecord.name, lambda row: row.name),
        DeviceSort.TARGET: _Key(DeviceRecord.target, lambda row: row.target),
        DeviceSort.POOL: _Key(DeviceRecord.pool, lambda row: row.pool),
        DeviceSort.TEMPERATURE: _Key(DeviceRecord.temperature_c, lambda row: row.temperature_c, descending=True),
        DeviceSort.MEMORY: _Key(DeviceRecord.memory_bytes, lambda row: row.memory_bytes, descending=True),
        DeviceSort.AGENT: _Key(DeviceRecord.agent_rank, lambda row: row.agent_rank, descending=True),
        DeviceSort.SEEN: _Key(DeviceRecord.last_seen_at, lambda row: row.last_seen_at, descending=True),
    }
    return keys[sort]


def ordered_page(
    devices: Devices, request: PageRequest, wanted: Order, since: datetime, filters: Iterable[ColumnElement[bool]]
) -> RowPage[DeviceRecord]:
    """One page; a 422 `Problem` if what the previous page showed last is gone."""
    filters = tuple(filters)
    if wanted == Order(DeviceSort.NEWEST, reverse=False, offset=0):
        return devices.page(request, *filters)
    key = _key(wanted.sort, since)
    falls = key.descending != wanted.reverse
    # The ids first: so the database does not carry the facts of all devices while it sorts.
    mine = select(DeviceRecord.id).where(DeviceRecord.workspace_id == devices.workspace_id, *filters)
    ids = mine.order_by(
        key.column.is_(None), key.column.desc() if falls else key.column.asc(), DeviceRecord.id.desc()
    ).limit(request.limit + 1)
    if request.after is not None:
        ids = _after(ids, key, falls, devices.find(request.after.id))
    found = list(devices.session.scalars(ids.offset(wanted.offset)))
    rows = {row.id: row for row in devices.session.scalars(devices.select().where(DeviceRecord.id.in_(found)))}
    shown = [rows[row_id] for row_id in found[: request.limit] if row_id in rows]
    more = len(found) > request.limit and shown
    return RowPage(shown, Position(shown[-1].created_at, shown[-1].id).encode() if more else None)


def _after(ids: Select[Any], key: _Key, falls: bool, last: DeviceRecord | None) -> Select[Any]:
    if last is None:
        raise Problem(Failure.CURSOR_INVALID, "What the previous page showed last is gone; begin with the first page.")
    value, later = key.of(last), DeviceRecord.id < last.id
    if value is None:
        return ids.where(key.column.is_(None), later)
    beyond = key.column < value if falls else key.column > value
    return ids.where(or_(key.column.is_(None), beyond, and_(key.column == value, later)))
