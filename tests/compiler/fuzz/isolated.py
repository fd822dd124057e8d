"""Runs jobs that may crash, hang or eat memory in processes of their own, and says what became of each."""

from __future__ import annotations

import multiprocessing
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TypeVar

from pockengine.errors import PockError

from .pipeline import one_sentence

SECONDS = 10.0
"""Of processor time that a job may take."""
PATIENCE = 60.0
"""Seconds after which a job that does not even notice that its time is up, or that waits, is killed."""
MEMORY = 4 << 30
REFUSED, RIGHT, ONLY_OURS = "refused", "right", "accepted, with nothing to compare"
FAILED = "failed"

_Job = TypeVar("_Job")


@dataclass(frozen=True)
class Outcome:
    """`kind` is one of the above; `detail` is the sentence, or what went wrong."""

    kind: str
    detail: str = ""
    seconds: float = 0.0


class TooLong(BaseException):
    """A job's processor time is up. Not an Exception, which a job might take for its own."""


def run_all(work: Callable[[_Job], str], jobs: Sequence[_Job]) -> Iterator[Outcome]:
    """`work` of each job in a fresh process with limits; a process that dies or hangs is replaced. `work` returns
    RIGHT or ONLY_OURS, raises PockError to refuse, and fails with anything else. The process is not forked: it would
    have the threads' locks and the gigabytes of address space of whatever else has been imported."""
    done = 0
    while done < len(jobs):
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        worker: BaseProcess = context.Process(target=_serve, args=(work, jobs[done:], theirs), daemon=True)
        worker.start()
        theirs.close()
        for outcome in _answers(ours, worker):
            yield outcome
            done += 1
        worker.kill()
        worker.join()


def _answers(ours: Connection, worker: BaseProcess) -> Iterator[Outcome]:
    """The worker's outcomes, and one for the job in which it dies or hangs."""
    away = False
    try:
        while ours.poll(PATIENCE):
            message = ours.recv()
            if isinstance(message, bool):
                away = message
            elif message is None:
                return
            else:
                yield message
        found = f"no answer within {PATIENCE:g} s"
    except EOFError:
        worker.join()
        found = f"the process died (exit code {worker.exitcode})"
    yield Outcome(ONLY_OURS if away else FAILED, found)


_connection: list[Connection] = []
"""In a worker: where it answers."""


@contextmanager
def foreign() -> Iterator[None]:
    """Around code that is not the project's, which may die or take its time without that being a failure of ours."""
    left, _ = signal.setitimer(signal.ITIMER_PROF, 0)
    _connection[0].send(True)
    try:
        yield
    finally:
        _connection[0].send(False)
        signal.setitimer(signal.ITIMER_PROF, left)


def _serve(work: Callable[[_Job], str], jobs: Sequence[_Job], answers: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPROF, _time_is_up)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _connection[:] = [answers]
    for job in jobs:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
        began = time.perf_counter()
        kind, detail = _attempt(work, job)
        answers.send(Outcome(kind, detail, time.perf_counter() - began))
    answers.send(None)


def _time_is_up(number: int, frame: object) -> None:
    raise TooLong(f"more than {SECONDS:g} s")


def _attempt(work: Callable[[_Job], str], job: _Job) -> tuple[str, str]:
    try:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            return work(job), ""
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except PockError as error:
        return (REFUSED, str(error)) if one_sentence(error) else (FAILED, f"not one sentence: {str(error)!r}")
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-3:]
        where = " < ".join(f"{frame.name} ({frame.filename.rpartition('/')[2]}:{frame.lineno})" for frame in last[::-1])
        return FAILED, f"{type(error).__name__}: {str(error)[:300]} in {where}"
