"""Starts a child, listens to it, ends it. Knows what a child is given, nothing of what it means."""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable

from pock_server.runner.hearing import Hearing, read_lines
from pock_server.settings import Settings

_LOOK_SECONDS = 0.05
_LAST_WORDS_SECONDS = 5.0


async def start(settings: Settings, *arguments: str) -> Process:
    """A worker process, in a group of its own so that its compilers die with it."""
    return await asyncio.create_subprocess_exec(
        *settings.worker_command,
        *arguments,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        env=_environment(),
        start_new_session=True,
    )


async def attend(process: Process, hearing: Hearing) -> None:
    """Listen until the child ends; then, or when cancelled, end everything it started. Raises `TalksTooMuch`."""
    assert process.stdout is not None and process.stderr is not None
    readers = [
        asyncio.create_task(_listen(process.stdout, hearing.line)),
        asyncio.create_task(_listen(process.stderr, hearing.log)),
    ]
    ended = asyncio.create_task(_wait(process))
    try:
        await asyncio.wait({ended, *readers}, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await ended
        await asyncio.wait(readers, timeout=_LAST_WORDS_SECONDS)
        for reader in readers:
            reader.cancel()
    for reader in readers:
        if reader.done() and not reader.cancelled():
            reader.result()


async def _listen(stream: asyncio.StreamReader, take: Callable[[str], None]) -> None:
    async for line in read_lines(stream):
        take(line)


async def _wait(process: Process) -> None:
    """Until the process ended; `Process.wait` waits for whoever holds its pipes, too."""
    while process.returncode is None:
        await asyncio.sleep(_LOOK_SECONDS)


def _environment() -> dict[str, str]:
    """The environment without the service's own settings, which hold passwords."""
    return {name: value for name, value in os.environ.items() if not name.startswith("POCK_")}
