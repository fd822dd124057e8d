"""What a child and all it started use, as seen from outside: memory by its processes, disk by its folders."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

_MOST_FILES = 200_000
_BLOCK = 512


def family(pid: int) -> list[psutil.Process]:
    """A process and all its descendants, as far as they are alive."""
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.Error:
        return []


def is_alive(process: psutil.Process) -> bool:
    """Whether a process can still do something: one that nobody has asked yet how it ended cannot."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def resident_bytes(processes: Iterable[psutil.Process]) -> int:
    """Their memory, shared pages counted for each."""
    total = 0
    for process in processes:
        with suppress(psutil.Error):
            total += process.memory_info().rss
    return total


def disk_bytes(folders: Iterable[Path], most: int) -> int:
    """What lies below folders whose files somebody else makes, in bytes on disk; links are not followed. More than
    `most` is said as soon as it is known, and so is an endless number of files."""
    total, count = 0, 0
    waiting = [str(folder) for folder in folders]
    while waiting and total <= most:
        with suppress(OSError), os.scandir(waiting.pop()) as found:
            for item in found:
                count += 1
                with suppress(OSError):
                    total += item.stat(follow_symlinks=False).st_blocks * _BLOCK
                    if item.is_dir(follow_symlinks=False):
                        waiting.append(item.path)
                if count > _MOST_FILES:
                    return most + 1
    return total
