"""Several questions at once: others are answered in forked processes."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

Answer = TypeVar("Answer")


def processes() -> int:
    """How many processes may answer at once: one a core, or this one alone where none can be forked safely."""
    return 1 if sys.platform != "linux" or threading.active_count() > 1 else len(os.sched_getaffinity(0))


def in_fork(question: Callable[[], Answer]) -> Callable[[], Answer]:
    """Begin to answer in another process; the function that is returned waits for the answer, which must be plain data.

    Where a process cannot be forked safely (other threads run, or the system's libraries forbid it), where there is one
    core only, or where the other process fails, the question is answered here when the answer is asked for: errors are
    raised as if there were no other process."""
    if processes() < 2:
        return question
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(source)
        _answer(question, sink)
    os.close(sink)

    def answer() -> Answer:
        with os.fdopen(source, "rb") as pipe:
            told = pipe.read()
        _, status = os.waitpid(child, 0)
        if status:
            return question()
        found: Answer = pickle.loads(told)
        return found

    return answer


def _answer(question: Callable[[], object], sink: int) -> None:
    """What the other process does: nothing of the parent's may run at its end."""
    status = 1
    with suppress(BaseException), os.fdopen(sink, "wb") as pipe:
        pipe.write(pickle.dumps(question()))
        pipe.flush()
        status = 0
    os._exit(status)
