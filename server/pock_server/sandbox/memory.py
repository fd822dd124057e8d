"""A bound on the memory of all of a child's processes together: a control group where this process may make one."""

import fcntl
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

_ROOT = Path("/sys/fs/cgroup")
_WAIT_SECONDS = 10.0
_PREFIX = "pock-build-"


@dataclass(frozen=True)
class MemoryGroup:
    """A control group of version 1 or 2, with a limit; https://docs.kernel.org/admin-guide/cgroup-v2.html.

    `held`: a descriptor of its folder, locked as long as the process that made it lives (`drop_abandoned_groups`).
    """

    folder: Path
    version: int
    held: int

    def add(self, pid: int) -> None:
        """Move a process here; what it starts from now on is here, too."""
        (self.folder / "cgroup.procs").write_text(str(pid))

    def kills(self) -> int:
        """How many processes the kernel has killed for want of memory."""
        text = (self.folder / ("memory.oom_control" if self.version == 1 else "memory.events")).read_text()
        found = dict(line.split() for line in text.splitlines())
        return int(found.get("oom_kill", 0))

    def close(self) -> None:
        """End whatever is left inside, and the group."""
        os.close(self.held)
        ends_at = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < ends_at:
            for pid in (self.folder / "cgroup.procs").read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            with suppress(OSError):
                self.folder.rmdir()
                return
            time.sleep(0.02)


def make_group(limit: int) -> MemoryGroup | None:
    """A new group that may have `limit` bytes; None where the system has no control groups, or not for this process."""
    for folder, version in _parents():
        made, held = folder / f"{_PREFIX}{uuid4().hex}", -1
        try:
            if version == 2 and "memory" not in (folder / "cgroup.subtree_control").read_text().split():
                (folder / "cgroup.subtree_control").write_text("+memory")
            made.mkdir()
            held = _lock(made, fcntl.LOCK_SH)
            (made / ("memory.limit_in_bytes" if version == 1 else "memory.max")).write_text(str(limit))
        except OSError:
            if held >= 0:
                os.close(held)
            with suppress(OSError):
                made.rmdir()
            continue
        with suppress(OSError):  # a system without swap, or that does not count it
            if version == 1:
                (made / "memory.memsw.limit_in_bytes").write_text(str(limit))
            else:
                (made / "memory.swap.max").write_text("0")
        return MemoryGroup(made, version, held)
    return None


def drop_abandoned_groups() -> None:
    """End the groups of processes that were killed, and what is left inside them."""
    for folder, version in _parents():
        for found in folder.glob(f"{_PREFIX}*"):
            with suppress(OSError):  # its process lives, or ends it at this moment
                MemoryGroup(found, version, _lock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)).close()


def _lock(folder: Path, how: int) -> int:
    """A locked descriptor of a folder. Raises OSError if it cannot be had at once."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, how)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _parents() -> list[tuple[Path, int]]:
    """Where a group could be made: in this process's own, and, of version 2, beside it, as one that has processes
    may have no groups inside."""
    found: list[tuple[Path, int]] = []
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "memory" in controllers.split(","):
                found.append((_ROOT / "memory" / path.lstrip("/"), 1))
            elif not controllers and (_ROOT / "cgroup.controllers").exists():
                own = _ROOT / path.lstrip("/")
                found += [(own, 2), *([(own.parent, 2)] if own != _ROOT else [])]
    return found
