"""Streams the stored events of a build, run or the like as server-sent events, from any point on, until it is over."""

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path
from fastapi.concurrency import run_in_threadpool
from fastapi.sse import EventSourceResponse, ServerSentEvent
from sqlalchemy.orm import Session

from pock_server.auth.requests import may_still
from pock_server.auth.schemas import Scope
from pock_server.auth.service import Caller
from pock_server.db.repository import Repository
from pock_server.dependencies import Reader, ServicesDep
from pock_server.events.repository import Events
from pock_server.events.tables import EventRecord
from pock_server.http.fields import Id
from pock_server.lifecycle import Lifecycle
from pock_server.services import Services

# Where another process may have written the event without ringing here.
LOOK_SECONDS = 1.0

# A stream outlives neither its key nor its session by more than this.
CHECK_SECONDS = 10.0

LastEventId = Annotated[
    int, Header(ge=0, le=2**31 - 1, alias="Last-Event-ID", description="Number of the last event received.")
]


Shown = Callable[[Session, EventRecord], dict[str, Any]]
"""Makes the data that a client gets of a stored event."""


def _as_stored(session: Session, row: EventRecord) -> dict[str, Any]:
    return row.data


@dataclass(frozen=True)
class Kind:
    """Rows of one kind whose events can be followed; the lifecycle is that of the row with the same id."""

    repository: type[Repository[Any]]
    lifecycle: Lifecycle[Any]
    shown: Shown


KINDS: dict[str, Kind] = {}
"""By the first part of their addresses, such as `runs`; `add_event_stream` adds to them."""


@dataclass(frozen=True)
class Subject:
    """Whose events are streamed, and to whom; `final` are the states after which nothing follows."""

    caller: Caller
    workspace_id: str
    id: str
    topic: str
    final: frozenset[str]
    shown: Shown = _as_stored


def add_event_stream(
    router: APIRouter,
    repository: type[Repository[Any]],
    lifecycle: Lifecycle[Any],
    kinds: str,
    shown: Shown = _as_stored,
) -> None:
    """Give a router `GET /{NOUN_id}/events`, of the repository's noun; the lifecycle is that of the row with the same
    id whose events they are. `kinds` says which events there are."""
    noun = repository.noun
    KINDS[router.prefix.strip("/")] = Kind(repository, lifecycle, shown)

    def find(row_id: Annotated[Id, Path(alias=f"{noun}_id")], caller: Reader, services: ServicesDep) -> Subject:
        with services.database.read() as session:
            row = repository(session, caller.workspace_id).require(row_id)
        return Subject(
            caller, row.workspace_id, row.id, f"{lifecycle.noun}:{row.id}", frozenset(lifecycle.final), shown
        )

    async def stream_events(
        subject: Annotated[Subject, Depends(find)], services: ServicesDep, last_event_id: LastEventId = 0
    ) -> AsyncIterator[ServerSentEvent]:
        async for event in stream(services, subject, last_event_id):
            yield event

    router.add_api_route(
        f"/{{{noun}_id}}/events",
        stream_events,
        response_class=EventSourceResponse,
        name=f"stream_{noun}_events",
        description=f"Server-sent events {kinds}, from the beginning or after `Last-Event-ID`.",
    )


async def stream(services: Services, subject: Subject, after: int) -> AsyncIterator[ServerSentEvent]:
    """All events after number `after`; ends with the event of a final state, or when the caller may see no more."""
    check_at = time.monotonic() + CHECK_SECONDS
    over = False
    with services.hub.listen(subject.topic) as bell:
        while not services.hub.closing:
            if time.monotonic() >= check_at:
                if not await run_in_threadpool(may_still, services, subject.caller, Scope.READ):
                    return
                check_at = time.monotonic() + CHECK_SECONDS
            rows = await run_in_threadpool(_load, services, subject, after)
            for row, data in rows:
                after = row.seq
                yield ServerSentEvent(id=str(row.seq), event=row.kind, data=data)
                if row.kind == "state" and row.data.get("state") in subject.final:
                    return
            if not rows:
                if over:
                    return
                over = await run_in_threadpool(_is_over, services, subject)
                if over:
                    continue  # once more: the last event may have been written between the two looks
                await bell.wait(services.hub.patience(LOOK_SECONDS))


def _load(services: Services, subject: Subject, after: int) -> list[tuple[EventRecord, dict[str, Any]]]:
    with services.database.read() as session:
        return [
            (row, subject.shown(session, row)) for row in Events(session, subject.workspace_id).after(subject.id, after)
        ]


def _is_over(services: Services, subject: Subject) -> bool:
    """A client that already has the last event must not wait for another one; nor for something that was deleted."""
    with services.database.read() as session:
        states = Events(session, subject.workspace_id).of_kind(subject.id, "state")
    return not states or states[-1].data.get("state") in subject.final
