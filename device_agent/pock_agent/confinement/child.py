"""Runs one command of the model confined: unprivileged, limited, without network, in a process group of its own.

Knows nothing of jobs; `job.phases` decides what to run and what an exit means.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from pock_agent.confinement.streams import Streams, Tail, read_to_end
from pock_agent.values import JsonObject

_LAUNCHER = Path(__file__).with_name("launcher.py")
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


@dataclass(frozen=True)
class Confinement:
    """Limits of one child, in bytes and seconds; `memory_bytes` bounds what it may allocate and what it may occupy."""

    memory_bytes: int
    cpu_seconds: int
    file_bytes: int
    open_files: int = 256

    def rlimits(self) -> dict[str, int]:
        """The rlimits by their names in `resource`."""
        named = {
            "RLIMIT_CORE": 0,
            "RLIMIT_CPU": self.cpu_seconds,
            "RLIMIT_FSIZE": self.file_bytes,
            "RLIMIT_NOFILE": self.open_files,
            # Not the address space: weights are mapped from files, and emulators reserve far more than they touch.
            "RLIMIT_DATA": self.memory_bytes,
        }
        return {name: value for name, value in named.items() if hasattr(resource, name)}


class Overstep(Enum):
    """The limit for which the agent itself kills a child; the system sees to the others."""

    TIME = "time"
    """The deadline of the job passed."""
    MEMORY = "memory"
    """More memory was resident than it may occupy."""


@dataclass(frozen=True)
class Exit:
    """How a child ended.

    `returncode` is negative for a signal; `killed_for` says for which limit the agent killed it, if it did.
    """

    returncode: int
    error_text: str
    killed_for: Overstep | None
    peak_bytes: int | None
    enforced: JsonObject


def unprivileged_user() -> tuple[int, int] | None:
    """User and group for children when the agent is root; None when there is no privilege to drop.

    In a container that maps few users, `nobody` may be a user that nobody can become.
    """
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        return None
    mapped = _is_mapped(entry.pw_uid, "/proc/self/uid_map") and _is_mapped(entry.pw_gid, "/proc/self/gid_map")
    return (entry.pw_uid, entry.pw_gid) if mapped else None


def _is_mapped(number: int, path: str) -> bool:
    try:
        ranges = [[int(word) for word in line.split()] for line in Path(path).read_text().splitlines()]
    except OSError:
        return True  # a system without user namespaces
    return any(first <= number < first + count for first, _, count in ranges)


class Child:
    """One confined child: started on creation, run by `watch`, dead when the `with` block ends, whatever happened."""

    def __init__(self, command: Sequence[str], folder: Path, temporary: Path, confinement: Confinement) -> None:
        self._memory_bytes = confinement.memory_bytes
        self._peak: int | None = None
        read_end, write_end = os.pipe()
        specification = {
            "command": list(command),
            "folder": str(folder),
            "environment": {**_ENVIRONMENT, "TMPDIR": str(temporary)},
            "limits": confinement.rlimits(),
            "user": unprivileged_user(),
            "agent": os.getpid(),
            "status_descriptor": write_end,
        }
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_LAUNCHER), json.dumps(specification)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(write_end,),
                start_new_session=True,
                env=_ENVIRONMENT,
            )
        finally:
            os.close(write_end)
        self._status = os.fdopen(read_end, "rb")

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *unused: object) -> None:
        self._kill()
        self._process.wait()
        for stream in (self._process.stdout, self._process.stderr, self._status):
            if stream is not None:
                stream.close()

    def watch(self, on_line: Callable[[bytes], None], check: Callable[[], None], deadline: float) -> Exit:
        """Deliver its lines until it ends. `deadline` is on the monotonic clock.

        `check` is asked several times a second; what it and `on_line` raise ends the block, and with it the child.
        """
        enforced = self._read_enforced()
        errors = Tail()
        killed_for: Overstep | None = None

        def look() -> None:
            nonlocal killed_for
            if killed_for is None:
                check()
                killed_for = self._overstepped(deadline)
                if killed_for:
                    self._kill()

        code = read_to_end(self._process, Streams(on_line, errors, look, self._kill))
        if "error" in enforced:
            errors.feed(str(enforced["error"]).encode())
        return Exit(code, errors.text(), killed_for, self._peak, enforced)

    def interrupt(self) -> None:
        """Ask it to end by itself; `watch` goes on until it has."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def _read_enforced(self) -> JsonObject:
        enforced: JsonObject = {}
        for line in self._status:
            enforced.update(json.loads(line))
        return enforced

    def _overstepped(self, deadline: float) -> Overstep | None:
        peak, resident = _memory_of(self._process.pid)
        if peak is not None:
            self._peak = max(peak, self._peak or 0)
        if time.monotonic() > deadline:
            return Overstep.TIME
        if resident is not None and resident > self._memory_bytes:
            return Overstep.MEMORY
        return None

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


def _memory_of(process: int) -> tuple[int | None, int | None]:
    """Peak and present resident bytes of a process, where the system shows them."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in ("VmHWM", "VmRSS"):
                found[name] = int(rest.split()[0]) * 1024
    return found.get("VmHWM"), found.get("VmRSS")
