"""Runs jobs that may crash, hang or eat memory in processes of their own, and says what became of each."""

from __future__ import annotations

import multiprocessing
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TypeVar

from pockengine.errors import PockError

from .pipeline import one_sentence

SECONDS = 10.0
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


def run_all(work: Callable[[_Job], str], jobs: Sequence[_Job], seconds: float = SECONDS) -> Iterator[Outcome]:
    """`work` of each job in a forked process with limits; a process that dies or hangs is replaced. `work` returns
    RIGHT or ONLY_OURS, raises PockError to refuse, and fails with anything else."""
    done = 0
    while done < len(jobs):
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe(duplex=False)
        worker: BaseProcess = context.Process(target=_serve, args=(work, jobs[done:], theirs), daemon=True)
        worker.start()
        theirs.close()
        try:
            while done < len(jobs):
                if not ours.poll(seconds):
                    yield Outcome(FAILED, f"no answer within {seconds:g} s", seconds)
                    break
                yield ours.recv()
                done += 1
        except EOFError:
            worker.join()
            yield Outcome(FAILED, f"the process died (exit code {worker.exitcode})")
        done += 1
        worker.kill()
        worker.join()


def _serve(work: Callable[[_Job], str], jobs: Sequence[_Job], answers: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for job in jobs:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
        began = time.perf_counter()
        kind, detail = _attempt(work, job)
        answers.send(Outcome(kind, detail, time.perf_counter() - began))


def _attempt(work: Callable[[_Job], str], job: _Job) -> tuple[str, str]:
    try:
        return work(job), ""
    except PockError as error:
        return (REFUSED, str(error)) if one_sentence(error) else (FAILED, f"not one sentence: {str(error)!r}")
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-3:]
        where = " < ".join(f"{frame.name} ({frame.filename.rpartition('/')[2]}:{frame.lineno})" for frame in last[::-1])
        return FAILED, f"{type(error).__name__}: {str(error)[:300]} in {where}"
