"""Speaks to one phone through the `adb` program: runs scripts in its shell, brings files there and back.

`adb shell` joins its arguments with blanks and gives the text to the phone's shell. So here it always gets one
argument, and whatever goes into that text has gone through `quoted`. Each script ends with a line that says how it
ended: where that line is missing, the connection broke, whatever the exit code of `adb` says.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO

from pock_agent.errors import AgentError, Away
from pock_agent.place.adb.bounded import Ended, Unbounded, run

ANSWER_SECONDS = 30.0
"""For a script in the phone's shell. The longest waits 10 s for a program to end."""
STATE_SECONDS = 5.0
"""For what only the computer's own side of adb is asked."""
START_SECONDS = 20.0
"""For that side to start."""
LEAST_SPEED = 1 << 20
"""Bytes a second that are moved or read at least."""
MOST_SAID = 1 << 20
"""Bytes that a script may say."""
_ATTACHED = "device"
_SERIAL = re.compile(r"[A-Za-z0-9_.:\[\]%()][A-Za-z0-9_.:\[\]%() -]{0,199}")
_ADVICE = {
    "unauthorized": "it has not allowed this computer yet: unlock it and accept 'Allow USB debugging'",
    "offline": "it is attached and does not answer: pull the cable and plug it in again",
    "recovery": "it is in its recovery system: start Android",
    "sideload": "it is in its recovery system: start Android",
    "bootloader": "it is in its bootloader: start Android",
    "no permissions": "this user may not use it: see https://developer.android.com/tools/device for udev's rules",
}

quoted = shlex.quote
"""A word as the phone's shell reads it: within single quotes nothing is special to any shell of POSIX."""


def _seconds(moved: int) -> float:
    """How long a call may take that moves or reads so many bytes."""
    return ANSWER_SECONDS + moved / LEAST_SPEED


@dataclass(frozen=True)
class Said:
    """What a script printed and its exit code."""

    code: int
    output: bytes

    @property
    def text(self) -> str:
        """The output as text, whatever bytes it has."""
        return self.output.decode(errors="replace")


def find_program(given: str | None) -> str:
    """The `adb` to use: the one that is given, `$ADB`, or the one in PATH. AgentError says how to get one."""
    for source, name in (("--adb-path", given), ("$ADB", os.environ.get("ADB"))):
        if name:
            found = shutil.which(name)
            if found is None:
                raise AgentError(f"{source} is {name!r}, which is no program that can be run")
            return found
    found = shutil.which("adb")
    if found is None:
        raise AgentError(
            "there is no adb here: install it (Debian: apt install adb; macOS: brew install android-platform-tools), "
            "or say where it is with --adb-path or $ADB"
        )
    return found


@cache
def _start(program: str) -> None:
    """Have adb's server run, once: the first call to adb starts it, and may take long for that."""
    run([program, "start-server"], START_SECONDS, MOST_SAID, lambda chunk: None)


def attached(program: str) -> dict[str, str]:
    """Serial -> state of every phone that adb knows of. Raises Away where adb itself does not work."""
    output = bytearray()
    try:
        _start(program)
        ended = run([program, "devices"], STATE_SECONDS, MOST_SAID, output.extend)
    except (Unbounded, OSError) as error:
        raise Away(f"adb does not work: {error}") from error
    if ended.returncode:
        raise Away(f"adb does not work: {ended.errors[-300:]}")
    rows = (line.split("\t", 1) for line in output.decode(errors="replace").splitlines() if "\t" in line)
    return {serial: state.strip() for serial, state in rows}


def choose(program: str, wanted: str | None) -> str:
    """The serial of the phone to use: the wanted one, or the only one. AgentError says what there is, or what to do."""
    found = attached(program)
    if wanted is not None:
        reason = why_not(found, wanted)
        if reason is not None:
            raise AgentError(f"the phone {wanted}: {reason}")
        return wanted
    if not found:
        raise AgentError("no phone is attached: plug one in, and turn on 'USB debugging' in its developer options")
    if len(found) > 1:
        listed = ", ".join(f"{serial} ({state})" for serial, state in sorted(found.items()))
        raise AgentError(f"{len(found)} phones are attached: {listed}; say which with --adb SERIAL")
    (serial,) = found
    return choose(program, serial)


def why_not(found: dict[str, str], serial: str) -> str | None:
    """Why the phone cannot be used now, in a sentence; None where it can."""
    if not _SERIAL.fullmatch(serial):
        return "that is no serial number of a phone; adb devices lists them"
    state = found.get(serial)
    if state == _ATTACHED:
        return None
    if state is None:
        others = f"; attached are {', '.join(sorted(found))}" if found else ""
        return f"it is not attached: plug it in, and turn on 'USB debugging' in its developer options{others}"
    return next((says for word, says in _ADVICE.items() if state.startswith(word)), f"adb says that it is {state!r}")


class Bridge:
    """One phone, by its serial. Every call is bounded in time and in what it takes; Away where it is not there."""

    def __init__(self, program: str, serial: str) -> None:
        self.program, self.serial = program, serial

    def away(self) -> str | None:
        """Why the phone cannot be used now; None where it can. Does not disturb the phone."""
        try:
            return why_not(attached(self.program), self.serial)
        except Away as error:
            return str(error)

    def shell(self, script: str, reads: int = 0) -> Said:
        """Run a script in the phone's shell, which reads files of so many bytes in all."""
        said = bytearray()
        mark = secrets.token_hex(8)
        ended = self._run(
            ["shell", f"(\n{script}\n)\nprintf '\\n%s %s\\n' {mark} $?"], _seconds(reads), MOST_SAID, said
        )
        output, _, code = bytes(said).rpartition(f"\n{mark} ".encode())
        if not code.strip().isdigit():
            raise self._broken(ended.errors)
        return Said(int(code), output)

    def push(self, source: Path, path: str) -> None:
        """Bring a file to the phone. OSError says why the phone did not take it."""
        ended = self._run(
            ["push", str(source.absolute()), path], _seconds(source.stat().st_size), MOST_SAID, bytearray()
        )
        if ended.returncode:
            if self.away() is not None:
                raise self._broken(ended.errors)
            raise OSError(f"the phone did not take {source.name}: {ended.errors[-500:]}")

    def fetch(self, path: str, size: int, target: BinaryIO) -> None:
        """Write the `size` bytes of a file on the phone to `target`. Away where there are more or fewer.

        Not by `adb pull`, which writes as much as the phone cares to send.
        """
        left = size

        def take(chunk: bytes) -> None:
            nonlocal left
            left -= len(chunk)
            target.write(chunk)

        try:
            ended = run(self._command(["exec-out", f"cat {quoted(path)} 2>/dev/null"]), _seconds(size), size, take)
        except Unbounded as error:
            raise Away(f"the phone {self.serial}: {error}") from error
        if left:
            raise self._broken(ended.errors)

    def start(self, script: str) -> subprocess.Popen[bytes]:
        """Start a script that reads what is written to the process's stdin."""
        command, pipe = self._command(["shell", script]), subprocess.PIPE
        try:
            return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
        except OSError as error:
            raise Away(f"the phone {self.serial}: {error}") from error

    def _run(self, words: list[str], seconds: float, limit: int, said: bytearray) -> Ended:
        try:
            return run(self._command(words), seconds, limit, said.extend)
        except (Unbounded, OSError) as error:
            raise Away(f"the phone {self.serial}: {error}") from error

    def _command(self, words: list[str]) -> list[str]:
        return [self.program, "-s", self.serial, *words]

    def _broken(self, errors: str) -> Away:
        """What to say of a call that came to no end."""
        reason = self.away() or f"the connection broke{f' ({errors[-300:]})' if errors else ''}"
        return Away(f"the phone {self.serial}: {reason}")
