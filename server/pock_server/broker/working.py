"""A build worker: Celery waits for messages in a thread, builds run in the event loop of the main thread.

The main thread lives as long as the process: children end with the thread that started them. A message says only that
something waits: whoever hears it takes the build that is next in fairness to all workspaces.
"""

import asyncio
import logging
import secrets
import signal
import socket
import threading
import time
from concurrent.futures import CancelledError, Future

from celery import Celery
from celery.worker import WorkController, state

from pock_server.broker.application import TASK, make_application
from pock_server.builds.service import QUEUE
from pock_server.db.bells import listen_forever
from pock_server.observing.logs import fields
from pock_server.runner.background import build, describe_compiler
from pock_server.runner.claims import claim_next
from pock_server.runner.workplace import drop_abandoned
from pock_server.services import Services

_STOP_SECONDS = 15.0
_SHORT_LIFE_SECONDS = 10.0
_SHORT_LIVES = 5
"""Celery ends by errors of its broker that it does not know. It is started again, unless it ends so often so early."""
_PAUSE_SECONDS = 1.0
"""Before Celery is started again; twice as long after each short life."""
_log = logging.getLogger(__name__)


async def work(services: Services, concurrency: int) -> None:
    """Build until SIGTERM or SIGINT; then builds that run are given back. Raises RuntimeError if Celery gave up."""
    await asyncio.to_thread(drop_abandoned, services.settings.effective_work_dir)
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    tasks = [
        asyncio.create_task(listen_forever(services.settings, services.hub)),
        asyncio.create_task(describe_compiler(services)),
    ]
    bench = _Bench(services, loop)
    application = make_application(services.settings, patient=True)
    application.task(bench.hear, name=TASK)
    gave_up = threading.Event()

    def consume() -> None:
        try:
            _consume(application, concurrency)
        except Exception:
            _log.exception("Celery ended")
        if not _stops():
            gave_up.set()
        if not loop.is_closed():
            loop.call_soon_threadsafe(stop.set)

    thread = threading.Thread(target=consume, name="celery", daemon=True)
    thread.start()
    _log.info("this worker builds", extra=fields(concurrency=concurrency))
    await stop.wait()
    state.should_stop = 0
    await bench.close()
    await asyncio.to_thread(thread.join, _STOP_SECONDS)
    services.hub.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    if gave_up.is_set():
        raise RuntimeError("Celery ended; its last lines in the log say why")


class _Bench:
    """What runs now."""

    def __init__(self, services: Services, loop: asyncio.AbstractEventLoop) -> None:
        self._services = services
        self._loop = loop
        self._running: set[asyncio.Task[None]] = set()
        self._closed = False

    def hear(self, build_id: str) -> None:
        """The task, in a thread of Celery's pool: one build, or nothing if none waits. Which one, the database says."""
        future: Future[None] = asyncio.run_coroutine_threadsafe(self._serve(), self._loop)
        try:
            future.result()
        except CancelledError:
            _log.info("the worker stops; its build was given back")

    async def _serve(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            claim = None if self._closed else await asyncio.to_thread(claim_next, self._services)
            if claim is not None:
                await build(self._services, claim)
                await asyncio.to_thread(self._ring)
        finally:
            self._running.discard(task)

    def _ring(self) -> None:
        """There is room for another build of this workspace, whose message may have come when there was none."""
        with self._services.database.write() as unit:
            unit.announce(QUEUE)

    async def close(self) -> None:
        """Give back what runs, and begin nothing more."""
        self._closed = True
        running = tuple(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _consume(application: Celery, concurrency: int) -> None:
    """Celery's own loop, until the worker stops; returns earlier if Celery cannot be kept alive."""
    application.finalize()
    application.set_current()
    application.set_default()
    short_lives = 0
    while not _stops() and short_lives < _SHORT_LIVES:
        began = time.monotonic()
        controller = WorkController(
            app=application,
            hostname=f"pock-{secrets.token_hex(4)}@{socket.gethostname()}",  # two on one machine are two
            pool="threads",
            concurrency=concurrency,
            without_heartbeat=True,
            without_mingle=True,
            without_gossip=True,
        )
        controller.start()
        if _stops():
            break
        short_lives = short_lives + 1 if time.monotonic() - began < _SHORT_LIFE_SECONDS else 0
        _log.warning("Celery ended by itself; its last lines say why")
        if short_lives < _SHORT_LIVES:
            _pause(_PAUSE_SECONDS * 2**short_lives)


def _pause(seconds: float) -> None:
    """Shorter if the worker stops."""
    until = time.monotonic() + seconds
    while not _stops() and time.monotonic() < until:
        time.sleep(0.1)


def _stops() -> bool:
    """Whether Celery was told to stop: by an exit status, which may be 0."""
    return state.should_stop is not None and state.should_stop is not False
