"""Starts a confined child, listens to it, watches what it uses, ends it. Knows nothing of what it says."""

import asyncio
import contextlib
import logging
import os
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Protocol

import psutil

from pock_server.runner.hearing import read_lines
from pock_server.sandbox.choice import Sandbox
from pock_server.sandbox.confinement import Den, Mechanism, command_line, prepare
from pock_server.sandbox.memory import MemoryGroup, make_group
from pock_server.sandbox.usage import disk_bytes, family, is_alive, resident_bytes
from pock_server.settings import Settings

OUT_OF_MEMORY = 2003
DISK_FULL = 2002
_LOOK_SECONDS = 0.05
_WATCH_SECONDS = 0.5
_LAST_WORDS_SECONDS = 5.0
_GATE = ("/bin/sh", "-c", 'read -r _ && exec "$@"', "sh")
"""Waits for a line before it becomes the program: until then its control group is set. Without one, it ends. What comes
after the line is the program's."""
_log = logging.getLogger(__name__)


class OverLimit(Exception):
    """The child and all it started took more than they may; `code` is the failure's."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(detail)
        self.code = code


@dataclass(frozen=True)
class Child:
    """A process with everything that it starts; `known` is what was seen of it."""

    process: Process
    sandbox: Sandbox
    den: Den
    group: MemoryGroup | None
    known: set[psutil.Process] = field(default_factory=set)

    def out_of_memory(self) -> OverLimit:
        """It took more memory than it may."""
        limit = f"{self.sandbox.limits.memory / 2**30:.1f} GiB"
        return OverLimit(
            OUT_OF_MEMORY,
            f"This takes more than the {limit} of memory that a build may have (POCK_BUILD_MEMORY_BYTES).",
        )

    def disk_full(self) -> OverLimit:
        """It left more on the disk than it may."""
        limit = f"{self.sandbox.limits.disk / 2**30:.1f} GiB"
        return OverLimit(
            DISK_FULL, f"This takes more than the {limit} of disk that a build may have (POCK_BUILD_DISK_BYTES)."
        )


class Hears(Protocol):
    """Who listens to a child: to each line of its stdout and of its stderr."""

    @property
    def line_bytes(self) -> int:
        """No line of stdout is longer; of one that is, the beginning is heard."""

    @property
    def total_bytes(self) -> float:
        """A child that says more is ended."""

    def line(self, text: str) -> None:
        """Take a line of stdout."""

    def log(self, text: str) -> None:
        """Take a line of stderr."""


async def start(settings: Settings, sandbox: Sandbox, den: Den, *arguments: str, asked: bool = False) -> Child:
    """A worker process that has its den and nothing else; the inputs lie there. `asked`: it reads its stdin, which
    stays open."""
    await asyncio.to_thread(prepare, den, settings, sandbox.mechanism)
    program = (*settings.worker_command, *arguments)
    if sandbox.mechanism is Mechanism.OFF:
        return Child(await _spawn(program, _own_environment(), False, asked), sandbox, den, None)
    line, environment = command_line(sandbox.mechanism, settings, den, sandbox.limits, program)
    group = await asyncio.to_thread(make_group, sandbox.limits.memory)
    try:
        process = await _spawn(tuple(line), environment, group is not None, asked)
        if group is not None:
            await _let_in(process, group, asked)
    except BaseException:
        if group is not None:
            await asyncio.to_thread(group.close)
        raise
    return Child(process, sandbox, den, group)


async def _let_in(process: Process, group: MemoryGroup, asked: bool) -> None:
    """Put the child that waits at the gate into its group, and let it begin; it ends if that fails."""
    assert process.stdin is not None
    try:
        group.add(process.pid)
        process.stdin.write(b"\n")
    except BaseException:
        process.kill()
        await process.wait()
        raise
    finally:
        if not asked:
            process.stdin.close()


async def attend(child: Child, hearing: Hears) -> int:
    """Listen until the child ends; then, or when cancelled, end everything it started. Its exit status,
    negative for a signal. Raises `TalksTooMuch`, `OverLimit`."""
    process = child.process
    assert process.stdout is not None and process.stderr is not None
    readers = [
        asyncio.create_task(_listen(read_lines(process.stdout, hearing.line_bytes, hearing.total_bytes), hearing.line)),
        asyncio.create_task(_listen(read_lines(process.stderr), hearing.log)),
    ]
    ended = asyncio.create_task(_wait(process))
    watch = asyncio.create_task(_watch(child))
    try:
        await _until_over(ended, watch, *readers)
    finally:
        watch.cancel()
        killed = await _end(child)
        await ended
        await asyncio.wait(readers, timeout=_LAST_WORDS_SECONDS)
        for reader in readers:
            reader.cancel()
        await asyncio.wait({watch, *readers})
    for task in (watch, *readers):
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
    if killed and process.returncode:
        raise child.out_of_memory()
    status = process.returncode or 0
    return 128 - status if status > 128 and child.sandbox.mechanism is not Mechanism.OFF else status


async def _until_over(ended: asyncio.Task[None], watch: asyncio.Task[None], *readers: asyncio.Task[None]) -> None:
    """Until the child ended, or something else went wrong."""
    waiting = {ended, watch, *readers}
    while not ended.done() and not any(task.done() and task.exception() for task in (watch, *readers)):
        _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)


async def _spawn(line: tuple[str, ...], environment: dict[str, str], gated: bool, asked: bool) -> Process:
    return await asyncio.create_subprocess_exec(
        *(_GATE if gated else ()),
        *line,
        stdin=PIPE if gated or asked else DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        env=environment,
        start_new_session=True,
    )


async def _watch(child: Child) -> None:
    """Until it takes too much. Raises `OverLimit`."""
    limits, seconds = child.sandbox.limits, _LOOK_SECONDS
    while True:
        await asyncio.sleep(seconds)
        seconds = min(_WATCH_SECONDS, 2 * seconds)
        found = await asyncio.to_thread(family, child.process.pid)
        child.known.update(found)
        if await asyncio.to_thread(disk_bytes, child.den.writable(), limits.disk) > limits.disk:
            raise child.disk_full()
        if child.group is not None:
            exceeded = child.group.kills() > 0  # the kernel ends one process; what is left of a build makes no sense
        else:
            exceeded = await asyncio.to_thread(resident_bytes, found) > limits.memory
        if exceeded:
            raise child.out_of_memory()


async def _end(child: Child) -> bool:
    """End it and everything it started; whether the kernel had to end some for want of memory."""
    left = [*child.known, *await asyncio.to_thread(family, child.process.pid)]
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.process.pid, signal.SIGKILL)
    for process in left:
        with contextlib.suppress(psutil.Error):
            process.kill()
    others = {process for process in left if process.pid != child.process.pid}
    ends_at = time.monotonic() + _LAST_WORDS_SECONDS
    while any(map(is_alive, others)) and time.monotonic() < ends_at:
        await asyncio.sleep(_LOOK_SECONDS / 5)
    if child.group is None:
        return False
    killed = child.group.kills() > 0
    await asyncio.to_thread(child.group.close)
    return killed


async def _listen(lines: AsyncIterator[str], take: Callable[[str], None]) -> None:
    async for line in lines:
        take(line)


async def _wait(process: Process) -> None:
    """Until the process ended; `Process.wait` waits for whoever holds its pipes, too."""
    while process.returncode is None:
        await asyncio.sleep(_LOOK_SECONDS)


def _own_environment() -> dict[str, str]:
    """This process's without the service's settings, which hold passwords."""
    return {name: value for name, value in os.environ.items() if not name.startswith("POCK_")}
