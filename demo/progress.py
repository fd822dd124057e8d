"""What a person sees while a long step of the demo is under way."""

import contextlib
from collections.abc import Callable, Iterator

from rich import progress
from rich.console import Console

Progress = Callable[[int, int], None]
"""Called with steps done and steps in all."""

console = Console(highlight=False)


@contextlib.contextmanager
def bar(title: str) -> Iterator[Progress]:
    """A progress bar that is moved by calling the value with steps done and steps in all."""
    columns = (
        progress.TextColumn("{task.description:37}"),
        progress.BarColumn(bar_width=20),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
    )
    with progress.Progress(*columns, console=console) as shown:
        task = shown.add_task(title, total=None)

        def move(done: int, total: int) -> None:
            shown.update(task, completed=done, total=total)

        yield move
