"""How much of a file went over the network: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from .console import visible

Moved = Callable[[int, int], None]
"""Called with the bytes that are there and those of the whole."""


@contextmanager
def byte_bar(what: str) -> Iterator[Moved]:
    """A bar on stderr while the block runs."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True, emoji=False), transient=True) as bar:
        task = bar.add_task(visible(what), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
