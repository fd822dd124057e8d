"""Tells the service that the device is alive, in a thread of its own, whatever the job is doing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pock_agent.connection import backoff
from pock_agent.connection.service import Service
from pock_agent.errors import AgentError, NotWelcome, ServiceError, Unreachable
from pock_agent.settings import Settings
from pock_agent.values import JsonObject

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Occupation:
    """The run in hand, its fence, and how to cancel it, with the reason."""

    run_id: str
    fence: int
    cancel: Callable[[str], None]


class Topic(Protocol):
    """Something beside the run in hand that heartbeats carry to the service and back."""

    def say(self) -> JsonObject:
        """Fields of the next heartbeat. AgentError and OSError are logged, here and below."""

    def hear(self, answer: JsonObject) -> None:
        """The service's whole answer, of which nothing is checked."""


class Heartbeat:
    """Beats from `start` to `stop` at the interval that the service asks for."""

    def __init__(
        self,
        service: Service,
        settings: Settings,
        interval: float,
        facts: Callable[[], JsonObject | None],
        topics: Sequence[Topic] = (),
    ) -> None:
        self._service, self._settings, self._interval, self._facts = service, settings, interval, facts
        self._topics = tuple(topics)
        self._occupation: Occupation | None = None
        self._wake, self._done = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; the thread is a daemon, so a request under way does not hold the agent up."""
        self._done.set()
        self._wake.set()

    def occupy(self, occupation: Occupation | None) -> None:
        """Say what the device does from now on; the next beat goes out at once."""
        self._occupation = occupation
        self._wake.set()

    def beat_soon(self) -> None:
        """Something changed that the service should know: the next beat goes out at once."""
        self._wake.set()

    def _run(self) -> None:
        beats = failures = 0
        while not self._done.is_set():
            try:
                self._beat(with_facts=beats % self._settings.facts_every == 0)
                beats, failures, pause = beats + 1, 0, self._interval
            except (Unreachable, ServiceError) as error:
                failures += 1
                pause = max(self._interval, backoff.delay(self._settings, failures, error))
                log.warning("heartbeat: %s; another in %.1f s", error, pause)
            except NotWelcome as error:
                log.warning("heartbeat: %s", error)  # the listener meets the same answer and ends the agent
                return
            self._wake.wait(pause)
            self._wake.clear()

    def _beat(self, with_facts: bool) -> None:
        occupation = self._occupation
        answer = self._service.heartbeat(
            None if occupation is None else occupation.run_id,
            None if occupation is None else occupation.fence,
            self._facts() if with_facts else None,
            self._said(),
        )
        self._interval = max(0.01, answer.heartbeat_seconds)
        if occupation is not None and occupation.run_id in answer.cancel:
            occupation.cancel(f"run {occupation.run_id} was cancelled")
        for topic in self._topics:
            try:
                topic.hear(answer.whole)
            except (AgentError, OSError) as error:
                log.error("%s", error)

    def _said(self) -> JsonObject:
        said: JsonObject = {}
        for topic in self._topics:
            try:
                said.update(topic.say())
            except (AgentError, OSError) as error:
                log.error("%s", error)
        return said
