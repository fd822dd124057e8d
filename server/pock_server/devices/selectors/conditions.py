"""Selectors as conditions on rows, so that the database chooses the devices."""

import operator
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, exists, not_, or_

from pock_server.db.globs import matches
from pock_server.devices.presence import is_in
from pock_server.devices.selectors.grammar import Comparison, Key, Term, Text
from pock_server.devices.states import DeviceState, DeviceStatus
from pock_server.devices.tables import DeviceLabelRecord, DeviceRecord

_COLUMNS: dict[Key, Any] = {
    Key.ID: DeviceRecord.id,
    Key.NAME: DeviceRecord.name,
    Key.POOL: DeviceRecord.pool,
    Key.TARGET: DeviceRecord.target,
    Key.ARCH: DeviceRecord.arch,
    Key.RAM: DeviceRecord.memory_bytes,
    Key.CORES: DeviceRecord.cores,
    Key.AGENT: DeviceRecord.agent_rank,
}
_COMPARE = {
    Comparison.EQUAL: operator.eq,
    Comparison.AT_LEAST: operator.ge,
    Comparison.AT_MOST: operator.le,
    Comparison.MORE: operator.gt,
    Comparison.LESS: operator.lt,
}


def conditions(terms: Iterable[Term], since: datetime) -> Iterator[ColumnElement[bool]]:
    """What a device meets that is chosen; `since` is what `heard_since` says.

    Devices that were revoked never come back: they are chosen only by who speaks of states.
    """
    terms = tuple(terms)
    if not any(term.key == Key.STATE for term in terms):
        yield DeviceRecord.status != DeviceStatus.REVOKED
    for term in terms:
        yield _condition(term, since)


def _condition(term: Term, since: datetime) -> ColumnElement[bool]:
    negated = term.comparison == Comparison.OTHER
    if isinstance(term.value, DeviceState):
        found = is_in(term.value, since)
        return not_(found) if negated else found
    if not isinstance(term.key, Key):
        assert isinstance(term.value, Text)
        mine = (DeviceLabelRecord.device_id == DeviceRecord.id) & (DeviceLabelRecord.key == term.key)
        labelled = exists().where(mine, _is(DeviceLabelRecord.value, term.value))
        return not_(labelled) if negated else labelled
    column = _COLUMNS[term.key]
    if negated:
        same = _is(column, term.value) if isinstance(term.value, Text) else column == term.value
        return or_(column.is_(None), not_(same))
    if isinstance(term.value, Text):
        return _is(column, term.value)
    compared: ColumnElement[bool] = _COMPARE[term.comparison](column, term.value)
    return compared


def _is(column: Any, wanted: Text) -> ColumnElement[bool]:
    return column == wanted.text if wanted.exact else matches(column, wanted.text)
