"""A job's folder on a phone, below /data/local/tmp, the one place where the shell's user may write and run programs.

The agent's own folder stays what counts: it is brought before each program, and what that left is collected after. A
program that goes on alone while the cable is out leaves its checkpoint; it is collected when the phone is back.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from pock_agent.confinement.child import Confinement
from pock_agent.device.target import Emulation
from pock_agent.disk.blobs import file_digest
from pock_agent.errors import Away, FailureCode, JobFailed
from pock_agent.place.adb.bridge import Bridge, quoted
from pock_agent.place.adb.readings import free_room
from pock_agent.place.adb.supervised import SCRIPT, Supervised
from pock_agent.settings import MIB

BASE = "/data/local/tmp/pock"
RESERVE = 64 * MIB
"""Bytes that are left free on the phone."""
_SUPERVISOR = "run.sh"
_TOKEN = re.compile(r"[0-9a-f]{16}")
_LEFT = re.compile(r"([0-9a-f]{64}) ([0-9]{1,15}) ([A-Za-z0-9_][A-Za-z0-9._-]{0,80}\.safetensors)")
_MOST_LEFT = 8
"""Files that are collected; an executable leaves weights and a checkpoint."""
_END = """
end() {
    { read -r process <"$1/pid"; } 2>/dev/null || return 0
    case $process in '' | *[!0-9]*) return 0 ;; esac
    [ "$(readlink "/proc/$process/cwd")" = "$(cd "$1" && pwd -P)" ] || return 0
    kill -s TERM "$process"
    left=50
    while [ $left -gt 0 ] && [ -d "/proc/$process" ]; do sleep 0.2; left=$((left - 1)); done
    kill -s KILL "$process" 2>/dev/null
    rm -f "$1/pid"
}
"""
"""Ends what still runs in a room, after it had 10 s to do so by itself."""


class PhoneRoom:
    """See `place.Room`. `file_bytes` bounds each file that is collected."""

    def __init__(self, bridge: Bridge, folder: Path, path: str, file_bytes: int) -> None:
        self._bridge, self._folder, self._path, self._file_bytes = bridge, folder, path, file_bytes
        self.emulation = Emulation(())

    def bring(self, without: Collection[str] = ()) -> None:
        """Have the folder there, verified by the phone itself; collect what an earlier program left first."""
        (self._folder / _SUPERVISOR).write_text(SCRIPT)
        names = [name for name in _files(self._folder) if name not in without]
        self._prepare({os.path.dirname(name) for name in names} | {"out"})
        self.collect()
        wanted = {name: file_digest(self._folder / name) for name in [*names, *_outputs(self._folder)]}
        present = self._digests(wanted)
        missing = [name for name, digest in wanted.items() if present.get(name) != digest]
        self._push(missing)
        present = self._digests(missing)
        damaged = [name for name in missing if present.get(name) != wanted[name]]
        if damaged:
            raise JobFailed(FailureCode.VERIFICATION, f"{', '.join(damaged)} is not on the phone what was sent to it")

    def start(self, command: Sequence[str], limits: Confinement) -> Supervised:
        """See `supervised`."""
        return Supervised(self._bridge, self._path, command, limits)

    def collect(self) -> None:
        """Have here what is in `out/` there, as far as it differs."""
        script = (
            f"cd {quoted(self._path)}/out || exit 1\n"
            'for file in *.safetensors; do if [ -f "$file" ] && [ ! -L "$file" ]; then\n'
            'set -- $(sha256sum <"$file"); echo "$1 $(wc -c <"$file") $file"; fi; done'
        )
        lines = self._said(script, _MOST_LEFT * self._file_bytes).splitlines()
        found = [match for line in lines if (match := _LEFT.fullmatch(line.strip()))][:_MOST_LEFT]
        for digest, size, name in (match.groups() for match in found):
            path = self._folder / "out" / name
            if not path.exists() or file_digest(path) != digest:
                self._fetch(name, digest, int(size))

    def remove(self) -> None:
        """End what runs there, and leave nothing."""
        path = quoted(self._path)
        self._said(f"{_END}\n[ ! -d {path} ] || {{ end {path}; rm -rf {path}; }}")

    def _prepare(self, folders: Collection[str]) -> None:
        """Make the folders, and end what an agent that was killed, or a cable that was pulled, left running."""
        path = quoted(self._path)
        made = " ".join(quoted(name) for name in sorted(folders) if name)
        self._said(f"{_END}\numask 077\nmkdir -p {path} && cd {path} && mkdir -p {made} && end {path}")

    def _digests(self, names: Collection[str]) -> dict[str, str]:
        """SHA-256 of those of the files that are there, by the phone's own count."""
        script = [f"cd {quoted(self._path)} || exit 1"]
        for number, name in enumerate(names):
            script.append(f"set -- $(sha256sum <{quoted(name)}); echo {number} $1")
        reads = sum((self._folder / name).stat().st_size for name in names)
        words = [line.split() for line in self._said("\n".join([*script, ":"]), reads).splitlines()]
        by_number = {row[0]: row[1] for row in words if len(row) == 2}
        return {name: by_number[str(number)] for number, name in enumerate(names) if str(number) in by_number}

    def _push(self, names: Sequence[str]) -> None:
        needed = sum((self._folder / name).stat().st_size for name in names)
        free = free_room(self._said(f"stat -f -c '%a %S' {quoted(self._path)}").strip())
        if free is not None and needed and needed + RESERVE > free:
            detail = f"the job needs {needed} bytes on the phone, and {free} are free there; make room on the phone"
            raise JobFailed(FailureCode.DISK_FULL, detail)
        for name in names:
            path = f"{self._path}/{name}"
            try:
                self._bridge.push(self._folder / name, path)
            except OSError as error:
                raise JobFailed(FailureCode.DISK_FULL, f"{error}; make room on the phone") from error
        if names:
            listed = " ".join(quoted(name) for name in names)
            self._said(f"cd {quoted(self._path)} && chmod 700 {listed}")

    def _fetch(self, name: str, digest: str, size: int) -> None:
        if size > self._file_bytes:
            raise JobFailed(FailureCode.DISK_FULL, f"the model left {size} bytes as {name}, more than it may")
        if shutil.disk_usage(self._folder).free < size:
            raise JobFailed(FailureCode.DISK_FULL, f"{name} has {size} bytes, and the disk has no room; free some")
        output = self._folder / "out"
        output.mkdir(exist_ok=True, mode=0o700)
        partial = output / f"{name}.tmp"
        with partial.open("wb") as file:
            self._bridge.fetch(f"{self._path}/out/{name}", size, file)
            file.flush()
            os.fsync(file.fileno())
        if file_digest(partial) != digest:
            partial.unlink()
            raise Away(f"the phone {self._bridge.serial}: {name} changed while it was fetched")
        os.replace(partial, output / name)

    def _said(self, script: str, reads: int = 0) -> str:
        said = self._bridge.shell(script, reads)
        if said.code:
            detail = f"the phone's shell failed with code {said.code}: {said.text[-300:].strip() or 'it says no more'}"
            raise JobFailed(FailureCode.CRASHED, f"{detail}; may it write to {BASE}?")
        return said.text


def path_of(folder: Path, owner: str, make: bool) -> str | None:
    """Where the room of a job folder is on the phone, as was written down there; `make` one where none was."""
    record = folder / "room"
    try:
        token = record.read_text()
    except (OSError, ValueError):
        token = ""
    if not _TOKEN.fullmatch(token):
        if not make:
            return None
        token = secrets.token_hex(8)
        record.write_text(token)
    return f"{BASE}/{owner}-{token}"


def clear(bridge: Bridge, owner: str, keep: str | None) -> None:
    """End and remove all rooms of this owner but one."""
    unless = f'[ "$room" = {quoted(keep)} ] || ' if keep else ""
    bridge.shell(
        f"{_END}\nfor room in {quoted(f'{BASE}/{owner}')}-*; do\n"
        f'[ ! -d "$room" ] || {unless}{{ end "$room"; rm -rf "$room"; }}\ndone'
    )


def _files(folder: Path) -> Iterator[str]:
    """Paths of what was laid out, below the folder."""
    yield _SUPERVISOR
    for part in ("artifact", "data"):
        for path in sorted((folder / part).rglob("*")):
            if path.is_file():
                yield path.relative_to(folder).as_posix()


def _outputs(folder: Path) -> Iterator[str]:
    """What earlier programs left, and the next one goes on with."""
    for path in sorted((folder / "out").glob("*.safetensors")):
        yield path.relative_to(folder).as_posix()
