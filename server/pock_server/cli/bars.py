"""Progress bars of the commands that take a while: on stderr, and only where a person looks."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


@dataclass(frozen=True)
class ByteBar:
    """A bar that counts bytes."""

    progress: Progress
    task: TaskID

    def total(self, count: int) -> Callable[[int], None]:
        """How many bytes there are in all; gives `advance`."""
        self.progress.update(self.task, total=count)
        return self.advance

    def advance(self, count: int) -> None:
        """So many bytes were just dealt with."""
        self.progress.advance(self.task, count)


@contextmanager
def byte_bar(what: str, total: int | None) -> Iterator[ByteBar]:
    """A bar of `total` bytes while the block runs."""
    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    console = Console(file=sys.stderr)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        yield ByteBar(progress, progress.add_task(what, total=total))
