"""How far a command is, on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ..progress import Progress as Report

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
    "gradients": "looking at gradients",
    "activations": "looking at activations",
    "measure": "measuring contributions",
    "costs": "learning what schemes cost",
    "probe": "asking what options add",
    "choose": "choosing",
    "front": "looking at other limits",
    "compare": "planning usual schemes",
    "rates": "trying learning rates",
    "confirm": "training what is compared",
}


@contextmanager
def progress(moving: bool = True) -> Iterator[Report]:
    """A progress bar on stderr while the block runs, nothing where stderr is not a terminal; gives the callback.
    `moving` takes a thread of its own."""
    if not sys.stderr.isatty():
        yield lambda stage, done, total: None
        return
    from rich.console import Console  # the tables and bars of `rich` take a while to import
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=moving) as bar:
        task = bar.add_task("starting", total=1)
        stage = ""

        def report(current: str, done: int, total: int) -> None:
            nonlocal stage
            if current != stage:
                stage = current
                bar.reset(task)
            doing = _DOING.get(current, current)
            bar.update(task, description=doing, completed=done, total=max(total, 1), refresh=not moving)

        yield report
