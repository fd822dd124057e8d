"""One stream for many subjects, over HTTP: a browser has one for all of its tabs, however many of them are live."""

import time
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import StringConstraints

from pock_server.auth.requests import may_still
from pock_server.auth.schemas import Scope
from pock_server.dependencies import Reader, ServicesDep
from pock_server.events.stream import CHECK_SECONDS, KINDS, LOOK_SECONDS
from pock_server.following.course import Course, Told
from pock_server.following.lists import Topic
from pock_server.http.fields import UUID
from pock_server.http.problems import PROBLEMS, Failure, Problem

router = APIRouter(prefix="/events", tags=["events"], responses=PROBLEMS)

MAX_FOLLOWED = 100
_UUID = UUID.strip("^$")
_LISTS = "|".join(Topic)

Followed = Annotated[str, StringConstraints(max_length=80, pattern=rf"^({_LISTS}|[a-z]+/{_UUID})$")]
Follow = Annotated[
    list[Followed],
    Query(
        min_length=1,
        max_length=MAX_FOLLOWED,
        description="What to follow: `runs/ID`, `builds/ID`, `searches/ID`, `campaigns/ID`, `benchmarks/ID`, "
        "`federations/ID`, or a list that changes: `devices`, `runs`, `builds`.",
    ),
]
Positions = Annotated[
    str,
    Header(
        alias="Last-Event-ID",
        max_length=11 * MAX_FOLLOWED,
        pattern=r"^(\d{1,9}(\.\d{1,9})*)?$",
        description="Id of the last event received: for each subject, in the order of `follow`, the number of its last "
        "event, with dots between.",
    ),
]


def _course(follow: Follow, caller: Reader, services: ServicesDep, last_event_id: Positions = "") -> Course:
    for name in follow:
        noun, _, row_id = name.partition("/")
        if row_id and noun not in KINDS:
            kinds = ", ".join(sorted(KINDS))
            raise Problem(Failure.INVALID, f"query.follow: {noun} cannot be followed; these can: {kinds}.")
    if len(set(follow)) < len(follow):
        raise Problem(Failure.INVALID, "query.follow: names something twice.")
    positions = [int(text) for text in last_event_id.split(".")] if last_event_id else [0] * len(follow)
    if len(positions) != len(follow):
        detail = f"header.Last-Event-ID: has {len(positions)} positions for the {len(follow)} that are followed."
        raise Problem(Failure.INVALID, detail)
    course = Course(services, caller.workspace_id, follow, positions)
    course.note_lists()
    return course


@router.get("", response_class=EventSourceResponse)
async def follow_events(
    course: Annotated[Course, Depends(_course)], caller: Reader, services: ServicesDep
) -> AsyncIterator[ServerSentEvent]:
    """Server-sent events of many subjects at once, each as in its own stream: `event` is the same, `data` holds the
    `subject` and its `data`. `changes` tell which rows of a list are in another state or have come further, at most
    once a second. `end` says that nothing follows of a subject, and `why`: it is `over`, or `missing`."""
    check_at = time.monotonic() + CHECK_SECONDS
    yield ServerSentEvent(comment="following")  # the head of the answer does not wait for the first event
    with services.hub.listen(*course.topics) as bell:
        while not services.hub.closing:
            if time.monotonic() >= check_at:
                if not await run_in_threadpool(may_still, services, caller, Scope.READ):
                    return
                check_at = time.monotonic() + CHECK_SECONDS
            told = await run_in_threadpool(_look, course)
            for id_, event in told:
                yield ServerSentEvent(id=id_, event=event.kind, data=event.data)
            if course.over:
                return
            if not told:
                await bell.wait(LOOK_SECONDS if course.has_lists else services.hub.patience(LOOK_SECONDS))


def _look(course: Course) -> list[tuple[str, Told]]:
    """Each event with the positions that it leads to."""
    return [(".".join(map(str, course.positions)), told) for told in course.look()]
