"""Services that the tests of a folder share rest while tests elsewhere have their turn: one that nobody asks still
looks and sweeps, and a run of all tests has a dozen of them."""

import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import psutil

Process: TypeAlias = subprocess.Popen[bytes] | subprocess.Popen[str] | psutil.Process
Processes = Callable[[], Iterable[Process]]
"""The processes of a service, as they are now. One that has ended gets no signal: its id may be another's."""

_shared: dict[Path, Processes] = {}


@contextmanager
def by_turns(folder: Path, processes: Processes) -> Iterator[None]:
    """While the block runs, these processes work only while a test in or below the folder does."""
    _shared[folder] = processes
    try:
        yield
    finally:
        _send(signal.SIGCONT, _shared.pop(folder)())


def give_turn(test: Path) -> None:
    """Wake what the test in this file may use, and let the others rest."""
    for folder, processes in _shared.items():
        _send(signal.SIGCONT if test.is_relative_to(folder) else signal.SIGSTOP, processes())


def _send(what: signal.Signals, processes: Iterable[Process]) -> None:
    for process in processes:
        process.send_signal(what)
