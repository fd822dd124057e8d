"""Keeps the lease of the job in hand alive, in its own thread, and stops the job when the lease is gone."""

from __future__ import annotations

import logging
import threading
import time

from pock_agent.connection import backoff
from pock_agent.connection.service import Service
from pock_agent.errors import AgentError, LeaseLost, NotWelcome, ServiceError, Unreachable
from pock_agent.job.control import JobControl
from pock_agent.settings import Settings
from pock_agent.values import JsonObject

log = logging.getLogger(__name__)


class LeaseKeeper:
    """The lease of one run, by its fencing number. `acquire` once, then `start`; `stop` ends the thread.

    How long the lease holds is measured on the monotonic clock from before each renewal, so that neither a wrong clock
    nor a slow answer makes the agent believe in a lease that the service already gave away.
    """

    def __init__(self, service: Service, run_id: str, fence: int, control: JobControl, settings: Settings) -> None:
        self._service, self._run_id, self._fence = service, run_id, fence
        self._control, self._settings = control, settings
        self._valid_until = 0.0
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._paused: JsonObject | None = None

    def acquire(self) -> None:
        """The first renewal, without which nothing may start. Raises LeaseLost when it cannot be had."""
        for failures in range(1, self._settings.lease_first_tries + 1):
            try:
                self._renew()
                return
            except (Unreachable, ServiceError) as error:
                if _is_final(error):
                    raise LeaseLost(f"run {self._run_id} is not this device's: {error}") from error
                self._control.wait(backoff.delay(self._settings, failures, error))
        raise LeaseLost(f"the lease of run {self._run_id} could not be renewed before the start")

    def start(self) -> None:
        """Renew from now on until `stop`; harmless when it does so already."""
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._thread.start()

    def tell(self, paused: JsonObject | None) -> None:
        """Say with this and every later renewal that the job is paused, why and until when; or, with None, that it
        goes on."""
        if paused == self._paused:
            return
        self._paused = paused
        try:
            self._renew()
        except (Unreachable, ServiceError, NotWelcome) as error:
            log.warning("renewing the lease: %s", error)  # the thread sees to it

    def stop(self) -> None:
        """End the thread; harmless when it never started."""
        self._done.set()
        if self._thread is not None:
            self._thread.join(self._settings.request_timeout_seconds)

    def _run(self) -> None:
        failures, pause = 0, self._settings.lease_renew_seconds
        while not self._done.wait(pause):
            try:
                self._renew()
                failures, pause = 0, self._settings.lease_renew_seconds
            except (Unreachable, ServiceError, NotWelcome) as error:
                failures += 1
                if self._done.is_set():
                    return
                if _is_final(error) or time.monotonic() >= self._valid_until:
                    self._control.lose_lease(f"the lease of run {self._run_id} is lost: {error}")
                    return
                left = self._valid_until - time.monotonic()
                pause = min(backoff.delay(self._settings, failures, error), max(0.0, left))
                log.warning("renewing the lease: %s; another try in %.1f s", error, pause)

    def _renew(self) -> None:
        asked = time.monotonic()
        answer = self._service.renew_lease(self._run_id, self._fence, self._paused)
        valid = self._settings.lease_valid_seconds if answer.valid_seconds is None else answer.valid_seconds
        self._valid_until = asked + valid
        if answer.cancel:
            self._control.cancel(f"run {self._run_id} was cancelled")


def _is_final(error: AgentError) -> bool:
    return isinstance(error, NotWelcome) or (isinstance(error, ServiceError) and not error.transient)
