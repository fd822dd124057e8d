"""Starts what a deployment consists of on one core, and samples what it uses."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

SERVER_CORE, LOAD_CORE = 0, 1
_STOP_SECONDS = 20


@contextlib.contextmanager
def pinned(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None, user: str | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """`command` on the server's core while the block runs; its output goes to `log`."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
            user=user,
            preexec_fn=lambda: os.sched_setaffinity(0, {SERVER_CORE}),
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def pin(root: int) -> None:
    """Move a process and its children to the server's core."""
    for process in _tree(root):
        process.cpu_affinity([SERVER_CORE])


@dataclass
class Usage:
    """Memory in bytes at each sample, and processor seconds since the start, of the named groups of processes."""

    memory: dict[str, list[int]] = field(default_factory=dict)
    processor: dict[str, float] = field(default_factory=dict)


async def sample_forever(groups: Mapping[str, int], usage: Usage, pause: float = 10.0) -> None:
    """Sample the process trees under these process ids."""
    first: dict[str, float] = {}
    while True:
        await asyncio.to_thread(_sample, groups, usage, first)
        await asyncio.sleep(pause)


def _sample(groups: Mapping[str, int], usage: Usage, first: dict[str, float]) -> None:
    for name, root in groups.items():
        members = _tree(root)
        usage.memory.setdefault(name, []).append(sum(map(_resident, members)))
        seconds = sum(map(_seconds, members))
        usage.processor[name] = seconds - first.setdefault(name, seconds)


def _tree(root: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(root)
        return [process, *process.children(recursive=True)]
    return []


def _resident(process: psutil.Process) -> int:
    """Resident bytes; a page that several processes share counts for each with its part."""
    with contextlib.suppress(psutil.Error):
        return int(process.memory_full_info().pss)
    return 0


def _seconds(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.Error):
        times = process.cpu_times()
        return float(times.user + times.system)
    return 0.0
