"""What one stream of many subjects has sent, and what comes next in it. Knows nothing of HTTP."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from pock_server.builds.lifecycle import BUILD_LIFECYCLE
from pock_server.devices.states import DeviceState
from pock_server.events.repository import BATCH, Events
from pock_server.events.stream import KINDS, Kind
from pock_server.following.lists import Difference, Look, Topic, difference
from pock_server.runs.lifecycle import RUN_LIFECYCLE
from pock_server.services import Services

MOST_TOLD = 100
"""Rows that one notice of changes names; of more, it says that there are."""
_LISTS = frozenset(map(str, Topic))
_FINAL = {
    Topic.RUNS: RUN_LIFECYCLE.final,
    Topic.BUILDS: BUILD_LIFECYCLE.final,
    Topic.DEVICES: frozenset({DeviceState.REVOKED}),
}


@dataclass(frozen=True)
class Told:
    """One event of the stream."""

    kind: str
    data: dict[str, Any]


@dataclass
class Course:
    """A stream on its way: `positions` are the numbers of the last events sent, in the order of `follows`."""

    services: Services
    workspace_id: str
    follows: Sequence[str]
    positions: list[int]
    _place: dict[str, int] = field(default_factory=dict)
    """Of subjects that still go on, by their ids."""
    _looks: dict[Topic, Look] = field(default_factory=dict)
    _begun: bool = False

    @property
    def topics(self) -> list[str]:
        """Whose bells to hear."""
        found = []
        for name in self.follows:
            noun, _, row_id = name.partition("/")
            if row_id:
                found.append(f"{KINDS[noun].lifecycle.noun}:{row_id}")
        return found

    @property
    def over(self) -> bool:
        """Whether nothing can follow."""
        return self._begun and not self._place and not self.has_lists

    @property
    def has_lists(self) -> bool:
        """Whether it follows a list, which no bell tells of."""
        return any(name in _LISTS for name in self.follows)

    def note_lists(self) -> None:
        """Note what stands in the lists, before the caller knows of the stream and reads them: what has changed
        earlier is not told, what changes later is."""
        for name in self.follows:
            if name in _LISTS:
                topic = Topic(name)
                self._looks[topic] = self.services.lists.look(self.workspace_id, topic, anew=True)

    def look(self) -> Iterator[Told]:
        """What is new; `positions` advance with each event that is taken. Nothing new: nothing."""
        with self.services.database.read() as session:
            if not self._begun:
                yield from self._begin(session)
            yield from self._subjects(session)
        for name in self.follows:
            if name in _LISTS:
                yield from self._list(Topic(name))

    def _begin(self, session: Session) -> Iterator[Told]:
        self._begun = True
        for place, name in enumerate(self.follows):
            noun, _, row_id = name.partition("/")
            if not row_id:
                continue
            repository = KINDS[noun].repository(session, self.workspace_id)
            mine = repository.select().where(repository.row_class.id == row_id)
            if session.scalar(mine.with_only_columns(repository.row_class.id)) is None:
                detail = f"There is no {repository.noun} {row_id}."
                yield Told("end", {"subject": name, "why": "missing", "detail": detail})
            else:
                self._place[row_id] = place

    def _subjects(self, session: Session) -> Iterator[Told]:
        # The states first: whose events are read after it was over has none that come later.
        states = dict(self._states(session))
        wanted = {row_id: self.positions[place] for row_id, place in self._place.items()}
        rows = Events(session, self.workspace_id).after_each(wanted)
        for row in rows:
            place = self._place[row.subject_id]
            shown = self._kind(place).shown(session, row)
            self.positions[place] = row.seq
            yield Told(row.kind, {"subject": self.follows[place], "data": shown})
        if len(rows) == BATCH:
            return
        for row_id, place in tuple(self._place.items()):
            state = states.get(row_id)
            if state is None or state in self._kind(place).lifecycle.final:
                del self._place[row_id]
                yield Told("end", {"subject": self.follows[place], "why": "over" if state else "missing"})

    def _kind(self, place: int) -> Kind:
        return KINDS[self.follows[place].partition("/")[0]]

    def _states(self, session: Session) -> Iterable[tuple[str, str]]:
        by_kind: dict[str, list[str]] = {}
        for row_id, place in self._place.items():
            by_kind.setdefault(self.follows[place].partition("/")[0], []).append(row_id)
        for noun, ids in by_kind.items():
            row = KINDS[noun].lifecycle.row_class
            query = select(row.id, row.state).where(row.workspace_id == self.workspace_id, row.id.in_(ids))
            yield from ((row_id, state) for row_id, state in session.execute(query))

    def _list(self, topic: Topic) -> Iterator[Told]:
        after = self.services.lists.look(self.workspace_id, topic)
        before, self._looks[topic] = self._looks[topic], after
        if before is after:
            return
        found = difference(before, after, lambda state: state in _FINAL[topic])
        if found:
            yield Told("changes", {"subject": str(topic), "data": _notice(found)})


def _notice(found: Difference) -> dict[str, Any]:
    changed, advanced = found.changed[:MOST_TOLD], found.advanced[:MOST_TOLD]
    return {
        "changed": [{"id": row_id, "state": state} for row_id, state in changed],
        "advanced": list(advanced),
        "more": len(changed) < len(found.changed) or len(advanced) < len(found.advanced),
    }
