"""The agent's own files: brought beside the present one, tried, and dropped when nobody returns to them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from pock_agent.disk.blobs import file_digest
from pock_agent.disk.directory import StateDirectory
from pock_agent.disk.files import sync_directory, write_atomically
from pock_agent.errors import AgentError
from pock_agent.update import launcher
from pock_agent.update.standing import Standing, entry
from pock_agent.values import JsonObject

TRY_SECONDS = 120.0
"""For each try of a new file: a slow board unpacks it first."""
_VERSION = re.compile(rb'^__version__ = "([0-9.]{1,20})"$', re.MULTILINE)


class Unfit(Exception):
    """A file that does not start here; the message says how it ended."""


def name_of(digest: str) -> str:
    """What the file with this SHA-256 is called."""
    return f"{digest}.pyz"


def place(standing: Standing, source: Path, digest: str) -> Path:
    """Have the file, whose digest was verified, beside the present one; whole or not at all. Raises OSError."""
    folder = standing.home / "versions"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    target, draft = folder / name_of(digest), folder / f"{digest}.new"
    if target.exists() and file_digest(target) == digest:
        return target
    try:
        shutil.copyfile(source, draft)
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        os.chmod(draft, 0o500)
        os.rename(draft, target)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    sync_directory(folder)
    return target


def try_out(path: Path, directory: StateDirectory, version: str) -> None:
    """Have the file say its version and read all that this agent keeps, in processes of their own; raises Unfit."""
    said = _ask(path, "--version")
    if said.strip() != f"pock-agent {version}":
        raise Unfit(f"it says it is {said.strip()[:100]!r}, and not version {version}")
    _ask(path, "self-check", "--state-dir", str(directory.root))


def _ask(path: Path, *words: str) -> str:
    command = [sys.executable, str(path), *words]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=TRY_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unfit(f"`{words[0]}` failed: {error}") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise Unfit(f"`{words[0]}` ended with exit code {done.returncode}: {last[:300]}")
    return done.stdout


def drop_others(standing: Standing) -> None:
    """Drop files that are neither the present one nor the one before."""
    launch = standing.read()
    kept = {entry(launch, name).get("file") for name in ("current", "previous")}
    with contextlib.suppress(OSError):
        for path in (standing.home / "versions").iterdir():
            if path.name not in kept:
                path.unlink()


def set_up(directory: StateDirectory, archive: Path) -> Path:
    """Have the launcher and this file beside the device's state, the file being the present one. The launcher's path.

    A file that was there becomes the one before. Raises AgentError where the file is no agent."""
    standing = Standing(directory)
    version = _version_of(archive)
    standing.home.mkdir(exist_ok=True, mode=0o700)
    digest = file_digest(archive)
    place(standing, archive, digest)
    program = standing.home / "launcher.py"
    write_atomically(program, Path(launcher.__file__).read_bytes())

    def change(launch: JsonObject) -> None:
        before = launch.get("current")
        if before is not None and before.get("file") != name_of(digest):
            launch["previous"] = before
        launch.setdefault("previous", None)
        launch.update(format=1, current={"file": name_of(digest), "version": version}, trial=None)

    standing.change(change)
    return program


def _version_of(archive: Path) -> str:
    try:
        with zipfile.ZipFile(archive) as file:
            found = _VERSION.search(file.read("any/pock_agent/__init__.py"))
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise AgentError(f"{archive} is not the agent as one file: {error}") from error
    if found is None:
        raise AgentError(f"{archive} does not say its version")
    return found.group(1).decode()
