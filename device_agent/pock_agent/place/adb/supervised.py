"""A program that runs on a phone, and the small script there that starts, limits and ends it.

The script is told on its stdin which signals to pass on. The end of that input means that the computer, the cable or
the agent is gone: the program is asked to end (a training writes its checkpoint) and killed a minute later. The script
says in lines of its own, which begin with a word that nobody else knows, how it began and how the program ended. Where
the last one is missing, the connection broke, and nothing else can be said of the program.
"""

from __future__ import annotations

import contextlib
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Sequence

from pock_agent.confinement.child import Confinement, Exit, Overstep
from pock_agent.confinement.streams import Streams, Tail, read_to_end
from pock_agent.errors import Away
from pock_agent.place.adb.bridge import Bridge, quoted
from pock_agent.values import JsonObject

SCRIPT = r"""# Starts a program of a job, limits it, passes signals on, says how it ended.
# MARK CPU_SECONDS DATA_KILOBYTES FILE_BLOCKS OPEN_FILES PROGRAM ARGUMENT...
trap '' HUP PIPE
mark=$1 held=
ulimit -c 0 && held="$held RLIMIT_CORE"
ulimit -t "$2" && held="$held RLIMIT_CPU"
ulimit -d "$3" && held="$held RLIMIT_DATA"
ulimit -f "$4" && held="$held RLIMIT_FSIZE"
ulimit -n "$5" && held="$held RLIMIT_NOFILE"
shift 5
exec 3<&0
echo "$mark began $(id -u)$held"
env -i PATH="$PATH" LANG=C.UTF-8 TMPDIR="$PWD/out" "$@" </dev/null 3<&- &
program=$!
echo "$program" >pid
exec 2>/dev/null
{
    while read -r word; do kill -s "$word" "$program"; done
    kill -s TERM "$program"
    sleep 60
    kill -s KILL "$program"
} <&3 >/dev/null &
listener=$!
wait "$program"
code=$?
kill -s KILL "$listener"
rm -f pid
echo
echo "$mark ended $code"
"""
"""For any shell of POSIX; what it uses beyond, Android's mksh and toybox have since Android 8."""

_KILL_SECONDS = 5.0
"""For a killed program to be gone; then its connection is cut."""
_BLOCK, _KILOBYTE = 512, 1024
_BY_SIGNAL = 128
"""A shell adds this to the number of the signal that ended a program."""


class Supervised:
    """See `place.Running`."""

    def __init__(self, bridge: Bridge, folder: str, command: Sequence[str], limits: Confinement) -> None:
        self._bridge = bridge
        self._mark = secrets.token_hex(16)
        self._enforced: JsonObject = {"network": True, "oom_first": False, "tied_to_agent": True, "limits": []}
        self._code: int | None = None
        self._killed_at: float | None = None
        numbers = (
            limits.cpu_seconds,
            limits.memory_bytes // _KILOBYTE,
            limits.file_bytes // _BLOCK,
            limits.open_files,
        )
        words = ["sh", "./run.sh", self._mark, *map(str, numbers), *command]
        self._process: subprocess.Popen[bytes] = bridge.start(
            f"cd {quoted(folder)} && exec {' '.join(map(quoted, words))}"
        )

    def __enter__(self) -> Supervised:
        return self

    def __exit__(self, *unused: object) -> None:
        self._kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL_SECONDS)
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def watch(self, on_line: Callable[[bytes], None], check: Callable[[], None], deadline: float) -> Exit:
        """Deliver its lines until it ends. Raises Away where the connection broke before."""
        errors, mark = Tail(), self._mark.encode()
        killed_for: Overstep | None = None

        def deliver(line: bytes) -> None:
            if line.startswith(mark):
                self._hear(line.decode(errors="replace").split()[1:])
            elif line:
                on_line(line)

        def look() -> None:
            nonlocal killed_for
            if killed_for is None:
                check()
                if time.monotonic() > deadline:
                    killed_for = Overstep.TIME
                    self._kill()
            self._cut_if_deaf()

        read_to_end(self._process, Streams(deliver, errors, look, lambda: None))
        if killed_for is None and self._code is None:
            reason = self._bridge.away() or f"the connection broke while the job ran ({errors.text()[-300:]})"
            raise Away(f"the phone {self._bridge.serial}: {reason}")
        code = -signal.SIGKILL if self._code is None else self._code
        return Exit(code, errors.text(), killed_for, None, self._enforced)

    def interrupt(self) -> None:
        """Ask it to end by itself; `watch` goes on until it has."""
        self._signal("TERM")

    def _hear(self, words: list[str]) -> None:
        """What the script says of itself."""
        if words[:1] == ["began"] and words[1:]:
            self._enforced |= {"user": int(words[1]) if words[1].isdecimal() else None, "limits": words[2:]}
        elif words[:1] == ["ended"] and words[1:] and words[1].isdecimal():
            code = int(words[1])
            self._code = _BY_SIGNAL - code if code > _BY_SIGNAL else code

    def _kill(self) -> None:
        if self._killed_at is None:
            self._killed_at = time.monotonic()
            self._signal("KILL")

    def _cut_if_deaf(self) -> None:
        """End the connection where the phone does not hear that the program is to die; the end of input tells it."""
        if self._killed_at is not None and time.monotonic() > self._killed_at + _KILL_SECONDS:
            self._process.kill()

    def _signal(self, name: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(f"{name}\n".encode())
            self._process.stdin.flush()
