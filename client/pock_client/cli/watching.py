"""Waits for builds and runs and shows how far they are: bars on a terminal, a line for each change elsewhere.

They are asked for again and again, one after the other: where an event got lost, the next answer still has the truth.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from ..errors import WaitTimeout
from .console import note, number, visible
from .faults import Interrupted

FINAL = frozenset({"succeeded", "failed", "cancelled"})
_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.5, 10.0
_SECONDS_FOR_EACH = 0.1
_PARTS = 1000
_TENTHS = 10
_DOING = {
    "import": "reading the model",
    "check": "checking",
    "resolve": "resolving the recipe",
    "optimise": "optimising the graph",
    "plan": "planning memory",
    "tune": "measuring kernels",
    "compile": "compiling kernels",
    "link": "linking",
    "pack": "packing",
}


@dataclass(frozen=True)
class Seen:
    """What a person is told of a build or run: in words, and the part of it that is done (None: nobody knows)."""

    words: str
    part: float | None = None
    beside: str = ""
    """What changes too often for a line of its own: the loss."""


class Watched(Protocol):
    """A build or a run."""

    id: str
    state: str


def wait_for_all(
    things: Mapping[str, Any], ask: Callable[[str], Any], look: Callable[[Any], Seen], timeout: float | None, after: str
) -> list[Any]:
    """The things once all are over, in order. `things` has them by the labels to show them under, `ask` gets one anew
    by its id. `after` is what to say of those that go on when this ends too early: by WaitTimeout or Interrupted."""
    current = dict(things)
    ends = None if timeout is None else time.monotonic() + timeout
    with display() as shown:
        try:
            for label, thing in current.items():
                shown.show(label, look(thing), over(thing))
            while waiting := [label for label, thing in current.items() if not over(thing)]:
                _sleep(len(waiting), ends, after)
                for label in waiting:
                    current[label] = ask(current[label].id)
                    shown.show(label, look(current[label]), over(current[label]))
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted; {after}") from None
    return list(current.values())


def over(thing: Watched) -> bool:
    """Whether nothing can happen to it any more."""
    return str(thing.state) in FINAL


def look_at_build(build: Any) -> Seen:
    """How far a build is."""
    if build.state == "queued" and build.queue_position:
        return Seen(f"queued, {build.queue_position} in the queue")
    if build.state != "running" or build.progress is None:
        return Seen(str(build.state), 1.0 if build.state == "succeeded" else None)
    stage = build.progress.stage
    return Seen(_DOING.get(stage, stage), build.progress.fraction)


def look_at_run(run: Any) -> Seen:
    """How far a run is."""
    if run.state == "queued" and run.queue_position:
        return Seen(f"queued, {run.queue_position} in the device's queue")
    if run.state == "waiting":
        return Seen("waits for what comes before it")
    if run.state == "leased":
        return Seen("the device prepares")
    if run.state != "running" or run.progress is None:
        return Seen(str(run.state), 1.0 if run.state == "succeeded" else None)
    done = run.progress
    if run.paused:
        return Seen(f"paused: {visible(run.paused.reason)}", done.step / max(done.steps, 1))
    loss = "" if done.loss is None else f"loss {number(done.loss)}"
    return Seen("running", done.step / max(done.steps, 1), f"{done.step}/{done.steps} {loss}".rstrip())


def _sleep(count: int, ends: float | None, after: str) -> None:
    """The pause before `count` things are asked for again."""
    seconds = min(max(_SHORTEST_SECONDS, count * _SECONDS_FOR_EACH), _LONGEST_SECONDS)
    if ends is not None:
        left = ends - time.monotonic()
        if left <= 0:
            raise WaitTimeout(f"the time to wait is over; {after}")
        seconds = min(seconds, left)
    time.sleep(seconds)


class Display(Protocol):
    """Shows how far things are; it is open for a while."""

    def show(self, label: str, seen: Seen, over: bool) -> None:
        """The thing of this label is so far."""


def display() -> AbstractContextManager[Display]:
    """Bars where stderr is a terminal, else lines."""
    return Bars() if sys.stderr.isatty() else Lines()


class Lines:
    """A line on stderr for each change of words, and for each tenth of what is done."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[str, int]] = {}

    def __enter__(self) -> Lines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def show(self, label: str, seen: Seen, over: bool) -> None:
        """A line, if there is something new."""
        tenth = int((seen.part or 0) * _TENTHS) if seen.beside else 0
        if self._last.get(label) != (seen.words, tenth):
            self._last[label] = (seen.words, tenth)
            note(f"{label}: {seen.words}{' ' if seen.beside else ''}{seen.beside}")


class Bars:
    """A bar on stderr for each thing."""

    def __init__(self) -> None:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[words]}", markup=False),
            TextColumn("{task.fields[beside]}", markup=False),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=Console(stderr=True, highlight=False, emoji=False), transient=True)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Bars:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, label: str, seen: Seen, over: bool) -> None:
        """Moves the bar of this label; it stands still when its thing is over."""
        if label not in self._tasks:
            self._tasks[label] = self._progress.add_task(visible(label), total=None, words="", beside="")
        task = self._tasks[label]
        total = None if seen.part is None and not over else _PARTS
        done = int((seen.part or 0.0) * _PARTS)
        words, beside = visible(seen.words), visible(seen.beside)
        self._progress.update(task, total=total, completed=done, words=words, beside=beside)
        if over:
            self._progress.stop_task(task)


def labelled(things: Sequence[Any], label: Callable[[Any], str]) -> dict[str, Any]:
    """Things by labels that differ: where two have the same, a number tells them apart."""
    found: dict[str, Any] = {}
    for thing in things:
        name, count = label(thing), 2
        text = name
        while text in found:
            text, count = f"{name} ({count})", count + 1
        found[text] = thing
    return found
