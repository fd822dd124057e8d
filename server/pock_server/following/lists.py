"""What stands in a workspace's lists, looked at once for all who follow them: a change is what two looks tell apart.

Looking, not ringing: devices change by the clock alone, and other processes write to the same tables.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, case, select
from sqlalchemy.orm import Session

from pock_server.builds.lifecycle import BUILD_LIFECYCLE
from pock_server.builds.schemas import BuildKind
from pock_server.builds.tables import BuildRecord
from pock_server.clock import Clock
from pock_server.db.unit import Database
from pock_server.devices.fleet import Fleet
from pock_server.devices.presence import heard_since, is_in
from pock_server.devices.states import DeviceState
from pock_server.devices.tables import DeviceRecord
from pock_server.lifecycle import Lifecycle
from pock_server.runs.lifecycle import RUN_LIFECYCLE
from pock_server.runs.tables import RunRecord

LOOK_SECONDS = 1.0
_SHARE = 20
"""A look that takes long is taken seldom: the looks at one list have a twentieth of the time, at most."""
_FORGET_SECONDS = 60.0
_NEWEST = 200
_MOST_OPEN = 1000


class Topic(StrEnum):
    """A list that can be followed."""

    DEVICES = "devices"
    RUNS = "runs"
    BUILDS = "builds"


class Seen(NamedTuple):
    """One row of a list: its state, and how far it has come in it."""

    state: str
    progress: str = ""


Look = Mapping[str, Seen]
"""Rows by their ids."""


@dataclass
class _Watched:
    lock: threading.Lock = field(default_factory=threading.Lock)
    look: Look | None = None
    began_at: float = 0.0
    good_until: float = 0.0
    asked_at: float = 0.0


class Lists:
    """The lists of all workspaces, as far as somebody follows them."""

    def __init__(self, database: Database, clock: Clock, fleet: Fleet) -> None:
        self._database = database
        self._clock = clock
        self._fleet = fleet
        self._lock = threading.Lock()
        self._watched: dict[tuple[str, Topic], _Watched] = {}

    def look(self, workspace_id: str, topic: Topic, anew: bool = False) -> Look:
        """What the list holds, at most a second ago, or longer where a look takes more than 50 ms; `anew`: now or
        later, by one look for all who ask before it begins. The same object as before says that nobody has looked
        again."""
        asked_at = time.monotonic()
        watched = self._of(workspace_id, topic)
        with watched.lock:  # one looks, the others wait for what is seen
            began = time.monotonic()
            good = watched.began_at >= asked_at if anew else began < watched.good_until
            if watched.look is None or not good:
                watched.look, watched.began_at = self._read(workspace_id, topic), began
                ended = time.monotonic()
                watched.good_until = ended + max(LOOK_SECONDS, _SHARE * (ended - began))
            return watched.look

    def _of(self, workspace_id: str, topic: Topic) -> _Watched:
        now = time.monotonic()
        with self._lock:
            for key in [key for key, other in self._watched.items() if other.asked_at < now - _FORGET_SECONDS]:
                del self._watched[key]
            watched = self._watched.setdefault((workspace_id, topic), _Watched())
            watched.asked_at = now
            return watched

    def _read(self, workspace_id: str, topic: Topic) -> Look:
        heartbeat = self._fleet.heartbeat_seconds()
        with self._database.read() as session:
            if topic == Topic.DEVICES:
                since = heard_since(self._clock.now(), heartbeat)
                state = case(*((is_in(each, since), str(each)) for each in DeviceState))
                rows = session.execute(select(DeviceRecord.id, state).where(DeviceRecord.workspace_id == workspace_id))
                return {row_id: Seen(name) for row_id, name in rows}
            if topic == Topic.RUNS:
                return _work(session, RUN_LIFECYCLE, RunRecord.progress, (RunRecord.workspace_id == workspace_id,))
            mine = (BuildRecord.workspace_id == workspace_id, BuildRecord.kind == BuildKind.MODEL)
            return _work(session, BUILD_LIFECYCLE, BuildRecord.progress, mine)


def _work(
    session: Session, lifecycle: Lifecycle[Any], progress: Any, mine: tuple[ColumnElement[bool], ...]
) -> dict[str, Seen]:
    """The newest rows, and those that are not over, however old."""
    row = lifecycle.row_class
    query = select(row.id, row.state, progress).where(*mine)
    found = list(session.execute(query.order_by(row.created_at.desc(), row.id.desc()).limit(_NEWEST)))
    for state in lifecycle.transitions.keys() - lifecycle.final:  # one by one and in no order: by the state's index
        found += session.execute(query.where(row.state == state).limit(_MOST_OPEN))
    return {row_id: Seen(state, "" if state in lifecycle.final else str(come)) for row_id, state, come in found}


@dataclass(frozen=True)
class Difference:
    """What two looks tell apart: rows that are new or in another state, and such as have only come further."""

    changed: tuple[tuple[str, str | None], ...]
    """Ids and states; None for a row that is gone, or that left the list's newest while it came to its end."""
    advanced: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.changed or self.advanced)


def difference(before: Look, after: Look, is_final: Callable[[str], bool]) -> Difference:
    """What has changed between two looks. A row of a final state that is no longer seen has only been pushed out by
    newer ones, or was deleted where newer ones are not enough to fill the list."""
    changed: list[tuple[str, str | None]] = []
    advanced: list[str] = []
    for row_id, seen in after.items():
        known = before.get(row_id)
        if known is None or known.state != seen.state:
            changed.append((row_id, seen.state))
        elif known.progress != seen.progress:
            advanced.append(row_id)
    full = len(after) >= _NEWEST
    for row_id, seen in before.items():
        if row_id not in after and not (full and is_final(seen.state)):
            changed.append((row_id, None))
    return Difference(tuple(changed), tuple(advanced))
