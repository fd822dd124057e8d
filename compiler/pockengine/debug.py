"""What `POCK_DEBUG` shows on standard error while something is compiled. Off, it costs a look at the environment.

Each level shows all that the levels below it show. Knows no stage, no graph and no kernel: who has them says them here.
"""

from __future__ import annotations

import os
import sys
import time
from enum import IntEnum

from .errors import PockError
from .progress import Progress

VARIABLE = "POCK_DEBUG"


class Level(IntEnum):
    """How much is shown. What is about one program says which: `train: fuse: …`.

    OFF      nothing
    STAGES   each stage with the seconds that it took
    SIZES    after each pass: nodes before and after, bytes of all values, seconds
    GRAPHS   after each pass that changed it: the graph, in the text form that `--dump` writes
    SOURCES  of each program: the order of its kernels, where each value lies, the source of each kernel"""

    OFF = 0
    STAGES = 1
    SIZES = 2
    GRAPHS = 3
    SOURCES = 4


def shows(level: Level) -> bool:
    """Whether what belongs to this level is asked for. Raises PockError where the variable holds no level."""
    said = os.environ.get(VARIABLE, "") or "0"
    if said not in {str(one.value) for one in Level}:
        raise PockError(f"{VARIABLE} must be a level from 1 to {max(Level).value}, or 0 for nothing, not '{said}'")
    return int(said) >= level


def say(text: str) -> None:
    """One line, or several, on standard error."""
    print(text, file=sys.stderr, flush=True)


class Watch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def __str__(self) -> str:
        return f"{time.perf_counter() - self._start:.3f} s"


def timed(progress: Progress) -> Progress:
    """The callback, which also says how long each stage takes: where a stage comes in parts, each part."""
    return _Timed(progress) if shows(Level.STAGES) else progress


class _Timed:
    def __init__(self, progress: Progress) -> None:
        self._progress, self._stage, self._watch = progress, "", Watch()

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage:
            self._finish()
            self._stage, self._watch = stage, Watch()
        self._progress(stage, done, total)
        if done and done == total:
            self._finish()

    def _finish(self) -> None:
        if self._stage:
            say(f"{self._stage}: {self._watch}")
        self._stage = ""
