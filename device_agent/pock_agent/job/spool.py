"""The lines of the child, and the agent's own, on their way to the service: numbered, kept on disk until the job is
over, sent in batches.

A line's sequence number is its position in the file. A phase that is repeated after a restart starts again at the
number where it first started, so the service sees each line once.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import threading
import time
from pathlib import Path

from pock_agent.connection import backoff
from pock_agent.connection.service import Service
from pock_agent.errors import AgentError, NotWelcome, ServiceError, Unreachable
from pock_agent.job.control import JobControl
from pock_agent.settings import Settings
from pock_agent.values import JsonObject

log = logging.getLogger(__name__)
told = logging.getLogger(f"{__name__}.told")
"""What is logged here is in the run's log, too, whatever else is logged."""
told.setLevel(logging.INFO)

MOST_LINES = 100
"""Of one start of a job: a service that cannot be reached would fill the disk."""


class EventSpool:
    """An append-only file of JSON lines. One thread appends, another reads."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._offsets = [0]
        with open(path, "rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    self._offsets.append(self._offsets[-1] + len(line))
        os.ftruncate(self._descriptor, self._offsets[-1])  # a line that a power cut left half-written

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def append(self, event: JsonObject) -> None:
        """Add one event; OSError when the disk is full, and then nothing of it stays."""
        line = json.dumps(event, allow_nan=False).encode() + b"\n"
        with self._lock:
            try:
                if os.write(self._descriptor, line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError:
                os.ftruncate(self._descriptor, self._offsets[-1])
                raise
            self._offsets.append(self._offsets[-1] + len(line))

    def truncate(self, length: int) -> None:
        """Keep the first `length` events."""
        with self._lock:
            del self._offsets[length + 1 :]
            os.ftruncate(self._descriptor, self._offsets[-1])

    def read(self, first: int, limit: int) -> list[JsonObject]:
        """At most `limit` events from sequence number `first` on."""
        with self._lock:
            last = min(first + limit, len(self))
            if first >= last:
                return []
            content = os.pread(self._descriptor, self._offsets[last] - self._offsets[first], self._offsets[first])
        return [json.loads(line) for line in content.splitlines()]

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class AgentLines(logging.Handler):
    """Takes what the job's thread logs to `told`, while `listening`.

    A phase that is repeated counts its lines from where it began, so nothing else may stand among them: it listens
    before the first phase and after the last one."""

    def __init__(self, spool: EventSpool) -> None:
        super().__init__(logging.INFO)
        self._spool, self._thread, self._lines = spool, threading.get_ident(), 0
        self.listening = False

    def emit(self, record: logging.LogRecord) -> None:
        """Put a line into the spool; a full disk loses it."""
        if not self.listening or record.thread != self._thread or self._lines >= MOST_LINES:
            return
        self._lines += 1
        with contextlib.suppress(OSError):
            self._spool.append({"event": "agent", "text": record.getMessage()})


class _Untaken(Unreachable):
    """The service answers, and takes no events."""


class EventSender:
    """Sends a spool's events in its own thread. Losing the lease stops the job; other trouble is retried."""

    def __init__(
        self, spool: EventSpool, service: Service, run_id: str, fence: int, control: JobControl, settings: Settings
    ) -> None:
        self._spool, self._service, self._run_id, self._fence = spool, service, run_id, fence
        self._control, self._settings = control, settings
        self._next = 0
        self._done = threading.Event()
        self._give_up_at = float("inf")
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    def drain(self) -> None:
        """Send what is left and end the thread. A service that does not take it is given up in bounded time: the result
        must not wait for ever for the samples. One that takes nothing could not take the result either, and one that
        takes them, however slowly, is not given up."""
        self._give_up_at = time.monotonic() + self._settings.events_drain_seconds
        self._done.set()
        self._thread.join()

    def stop(self) -> None:
        """End the thread without sending what is left; harmless after `drain`."""
        self._stopped = True
        self._done.set()
        self._thread.join(self._settings.request_timeout_seconds)

    def _run(self) -> None:
        failures = 0
        while not self._over():
            finishing = self._done.is_set()
            try:
                while not self._over() and self._send():
                    failures = 0
                    if self._done.is_set():
                        self._give_up_at = time.monotonic() + self._settings.events_drain_seconds
                if finishing:
                    return
                pause = self._settings.events_seconds
            except (Unreachable, ServiceError, NotWelcome) as error:
                failures += 1
                if not self._worth_retrying(error):
                    return
                pause = backoff.delay(self._settings, failures, error)
                if self._done.is_set() and _takes_nothing(error):
                    self._give_up_at = time.monotonic() + pause + self._settings.events_drain_seconds
            if finishing:
                time.sleep(min(pause, max(0.0, self._give_up_at - time.monotonic())))
            else:
                self._done.wait(pause)

    def _over(self) -> bool:
        return self._control.lost or self._stopped or time.monotonic() >= self._give_up_at

    def _send(self) -> bool:
        """Send one batch; whether there was one. The service's own count decides where to go on."""
        events = self._spool.read(self._next, self._settings.events_batch)
        if not events:
            return False
        following = min(self._service.send_events(self._run_id, self._fence, self._next, events), len(self._spool))
        stuck, self._next = following <= self._next, following
        if stuck:
            raise _Untaken(f"the service still expects event {following} after it was sent")
        return True

    def _worth_retrying(self, error: AgentError) -> bool:
        log.warning("sending events: %s", error)
        if isinstance(error, ServiceError) and error.takes_the_run:
            self._control.lose_lease(f"the lease of run {self._run_id} is lost: {error}")
            return False
        return not isinstance(error, NotWelcome) and not (isinstance(error, ServiceError) and not error.transient)


def _takes_nothing(error: AgentError) -> bool:
    if isinstance(error, ServiceError):
        return error.takes_nothing
    return isinstance(error, Unreachable) and not isinstance(error, _Untaken)
