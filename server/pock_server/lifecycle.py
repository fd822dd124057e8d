"""The only place where the status of a build or run changes: by a table of allowed transitions, compare-and-set."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar

from sqlalchemy import update

from pock_server.db.base import StatefulRow
from pock_server.db.unit import Unit
from pock_server.events.repository import Events
from pock_server.http.problems import Failure, Problem
from pock_server.observing.facts import Moved

State = TypeVar("State", bound=StrEnum)


@dataclass(frozen=True)
class Lifecycle(Generic[State]):
    """Allowed transitions of one kind of row; a state without successors is final."""

    noun: str
    row_class: type[StatefulRow]
    transitions: Mapping[State, frozenset[State]]

    @property
    def final(self) -> frozenset[State]:
        """States that are never left."""
        return frozenset(state for state, following in self.transitions.items() if not following)

    def move(
        self, unit: Unit, row: StatefulRow, to: State, now: datetime, reason: str | None = None, **changes: Any
    ) -> None:
        """Move `row` to another state and set `changes`, write the `state` event, ring the row's bell after commit.

        `reason`: what the event says of a move that is no success and no failure.

        Raises a 409 `Problem` if the table does not allow it or another process moved the row first.
        """
        origin = type(to)(row.state)
        if to not in self.transitions[origin]:
            raise Problem(Failure.STATE_CONFLICT, f"This {self.noun} is {origin} and cannot become {to}.")
        unit.session.flush()
        moved = unit.session.execute(
            update(self.row_class)
            .where(self.row_class.id == row.id, self.row_class.state == origin)
            .values(state=to, **changes)
            .returning(self.row_class.id)
            .execution_options(synchronize_session=False)
        ).first()
        unit.session.refresh(row)
        if moved is None:
            raise Problem(Failure.STATE_CONFLICT, f"This {self.noun} has just become {row.state}.")
        data: dict[str, Any] = {"state": str(to)}
        if changes.get("failure") is not None:
            data["failure"] = changes["failure"]
        if reason is not None:
            data["reason"] = reason
        Events(unit.session, row.workspace_id).append(row.id, "state", data, now)
        unit.announce(f"{self.noun}:{row.id}")
        unit.happened(
            Moved(
                noun=self.noun,
                id=row.id,
                origin=str(origin),
                to=str(to),
                over=to in self.final,
                failure=changes.get("failure"),
                attempt=row.attempt,
                holder=row.holder(),
                request_id=row.request_id,
                traceparent=row.traceparent,
                created_at=row.created_at,
                started_at=row.started_at,
                at=now,
            )
        )
