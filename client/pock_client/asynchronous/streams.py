"""Follows what happens to a build or run: its events, across cut connections and restarts, each of them once."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

import httpx

from pock_client.answers import check_encoding
from pock_client.asynchronous.transport import Transport
from pock_client.calls import Call
from pock_client.errors import Damaged, ServiceError, Unreachable, WaitTimeout
from pock_client.events import FINAL, Event, StateEvent, read
from pock_client.pausing import AsyncQuestion, AsyncStream, sleep_async
from pock_client.retry import Attempts
from pock_client.sse import Parser

_SILENCE_SECONDS = 60.0
"""The service says something every 15 seconds, if only that it is there."""
_PATIENCE = 5
"""So many times the patience of a request: a service may take a while to start."""


_LIVED_SECONDS = 5.0
"""A connection that was there for so long was a good one: its end is the first failure."""


@dataclass(frozen=True)
class Subject:
    """Whose events: its path, what to call it, and how to ask whether it is over."""

    path: str
    words: str
    is_over: AsyncQuestion


async def follow(
    transport: Transport, subject: Subject, after: int = 0, ends: float | None = None
) -> AsyncStream[Event]:
    """The events after number `after`, until the last one. Raises WaitTimeout at `ends` (of `time.monotonic`)."""
    attempts = Attempts(transport.patience * _PATIENCE)
    over = False
    while True:
        began = time.monotonic()
        try:
            async with aclosing(_events(transport, subject, after, ends)) as events:
                async for event in events:
                    attempts.progressed()
                    after = event.id
                    yield event
                    if isinstance(event, StateEvent) and event.state in FINAL:
                        return
            if over:
                return
            if over := await subject.is_over():
                continue  # once more: the last event may have come between the stream's end and this answer
            if time.monotonic() - began > _LIVED_SECONDS:
                attempts.progressed()
            pause = attempts.pause(Unreachable(f"{transport.url} ends the events of {subject.words} early"), True)
        except (ServiceError, Unreachable) as error:
            _check(subject, ends)
            if time.monotonic() - began > _LIVED_SECONDS and not isinstance(error, ServiceError):
                attempts.progressed()
            pause = attempts.pause(error, True)
        await sleep_async(min(pause, max(0.0, ends - time.monotonic())) if ends is not None else pause)
        _check(subject, ends)


async def watch(
    transport: Transport, subject: Subject, on_event: Callable[[Event], object] | None, timeout: float | None
) -> None:
    """Return when it is over; `on_event` gets every event. Raises WaitTimeout after `timeout` seconds."""
    ends = None if timeout is None else time.monotonic() + timeout
    async with aclosing(follow(transport, subject, 0, ends)) as events:
        async for event in events:
            if on_event is not None:
                on_event(event)


async def _events(transport: Transport, subject: Subject, after: int, ends: float | None) -> AsyncStream[Event]:
    """Those that one connection brings. It ends before `ends`, to be made again with less patience."""
    silence = _SILENCE_SECONDS
    if ends is not None:
        silence = min(silence, max(0.05, ends - time.monotonic()))
    wanted = {"Last-Event-ID": str(after), "Accept": "text/event-stream"}
    async with transport.answer(Call("GET", f"{subject.path}/events", headers=wanted, seconds=silence)) as response:
        _check_kind(response)
        parser = Parser()
        async for chunk in response.aiter_raw():
            for sent in parser.feed(chunk):
                if sent.id > after:
                    after = sent.id
                    yield read(sent)
            _check(subject, ends)
            if ends is not None and ends - time.monotonic() < silence / 2:
                return


def _check_kind(response: httpx.Response) -> None:
    check_encoding(response)
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        raise Damaged("the service's events come as something else than events")


def _check(subject: Subject, ends: float | None) -> None:
    if ends is not None and time.monotonic() >= ends:
        raise WaitTimeout(f"{subject.words} is not over after the time that was allowed; it goes on")
