"""Several processes behind one listening socket, and the parent that keeps them: it restarts one that died."""

import logging
import multiprocessing
import signal
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType

from pock_server.health.exposition import forget_process, shared_metrics
from pock_server.processes.one import Server, run_process
from pock_server.settings import Settings, UnusableSetting

_LOOK_SECONDS = 0.2
_STOP_SECONDS = 20.0
_SHORT_LIFE_SECONDS = 5.0
_LONGEST_PAUSE_SECONDS = 30.0
_log = logging.getLogger(__name__)


class _Child:
    """One place among the processes, and whoever fills it now."""

    def __init__(self, settings: Settings, listener: socket.socket) -> None:
        self._settings, self._listener = settings, listener
        self._pause = 1.0
        self._starts_at = 0.0
        self.start()

    def start(self) -> None:
        """Fill the place."""
        context = multiprocessing.get_context("spawn")
        self.lifeline, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(
            target=_serve, args=(self._settings, self._listener, theirs), name="pock-server"
        )
        self.process.start()
        theirs.close()
        self._started_at = time.monotonic()
        self.listens = False
        self.refusal: str | None = None

    def look(self) -> None:
        """Hear whether it listens by now, or why it cannot."""
        try:
            while self.lifeline.poll():
                self.refusal = self.lifeline.recv()
                self.listens = self.refusal is None
        except (EOFError, OSError):
            pass  # it has died, and the sentinel says so

    def bury(self) -> None:
        """It died: note when its successor starts. One that dies young makes the next one wait longer."""
        self.look()
        lived = time.monotonic() - self._started_at
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS) if lived < _SHORT_LIFE_SECONDS else 1.0
        self._starts_at = time.monotonic() + (self._pause if lived < _SHORT_LIFE_SECONDS else 0.0)
        why = self.refusal or f"it ended with status {self.process.exitcode}"
        _log.error("process %s of the service is lost: %s", self.process.pid, why)
        forget_process(self.process.pid)
        self.lifeline.close()
        self.listens = False

    def revive(self) -> None:
        """Fill the place again if it is time."""
        if time.monotonic() >= self._starts_at:
            self.start()


def supervise(settings: Settings, listener: socket.socket, count: int, listens: Callable[[], None]) -> bool:
    """Keep `count` processes until a signal ends them all; False if they could not start.

    `listens` is called once, when all of them do. The first one alone runs builds, where this host does that in its
    processes. Raises `UnusableSetting` if that is why they could not start.
    """
    stopping = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    listener.listen(2048)
    with shared_metrics():
        return _keep([_Child(_of_process(settings, place), listener) for place in range(count)], stopping, listens)


def _keep(children: list[_Child], stopping: threading.Event, listens: Callable[[], None]) -> bool:
    announced = failed = False
    while not stopping.is_set() and not failed:
        wait([child.process.sentinel for child in children if child.process.is_alive()], _LOOK_SECONDS)
        for child in children:
            child.look()
        if not announced and all(child.listens for child in children):
            announced = True
            listens()
        failed = not announced and any(child.process.exitcode is not None for child in children)
        if announced and not stopping.is_set():
            _replace_dead(children)
    _stop_all(children)
    if failed:
        for child in children:
            child.look()
            if child.refusal is not None:
                raise UnusableSetting(child.refusal)
    return not failed


def _of_process(settings: Settings, place: int) -> Settings:
    """What differs between the processes: beside the first alone builds run, and the port of the metrics of all is."""
    changes: dict[str, object] = {}
    if place > 0 and settings.runner == "inprocess":
        changes["runner"] = "none"
    if place > 0:
        changes["metrics_port"] = None
    return settings.model_copy(update=changes)


def _replace_dead(children: list[_Child]) -> None:
    for child in children:
        if not child.lifeline.closed and child.process.exitcode is not None:
            child.bury()
        if child.lifeline.closed:
            child.revive()


def _stop_all(children: list[_Child]) -> None:
    for child in children:
        if child.process.is_alive():
            child.process.terminate()
    ends_at = time.monotonic() + _STOP_SECONDS
    for child in children:
        child.process.join(max(0.0, ends_at - time.monotonic()))
        if child.process.is_alive():
            _log.error("process %s of the service did not stop; it is killed", child.process.pid)
            child.process.kill()
            child.process.join()


def _serve(settings: Settings, listener: socket.socket, lifeline: Connection) -> None:
    """A process's whole life. It ends when its parent is gone, too."""

    def hand_over(server: Server) -> None:
        threading.Thread(target=_end_with_parent, args=(server, lifeline), daemon=True).start()

    try:
        served = run_process(settings, listener, lambda: lifeline.send(None), hand_over)
    except UnusableSetting as error:
        lifeline.send(str(error))
        served = False
    raise SystemExit(0 if served else 1)


def _end_with_parent(server: Server, lifeline: Connection) -> None:
    try:
        lifeline.recv()
    except (EOFError, OSError):
        server.should_exit = True
