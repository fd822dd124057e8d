"""What `launch.json` says, for the agent: which file is the present one, which the one before, and how a trial stands.

Rule for every version: a field keeps its name and meaning for ever, what is not known is kept as it is, and what is
missing means nothing happened. The launcher of a device is as old as the device's installation, and an agent that is
given up hands the file to one that is older than itself.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pock_agent.disk.directory import StateDirectory
from pock_agent.disk.files import read_json, write_json
from pock_agent.update.launcher import LAUNCHER, SUPERVISED
from pock_agent.values import JsonObject

MAX_STARTS = 3
"""Of a file on trial."""


class Standing:
    """`launch.json` of one device; the launcher writes it only while no agent runs."""

    def __init__(self, directory: StateDirectory) -> None:
        self.home = directory.launching
        self._path = self.home / "launch.json"
        self._lock = threading.Lock()

    @property
    def launched(self) -> bool:
        """Whether the launcher of this very directory started this process: only then can it replace its file."""
        launcher = os.environ.get(LAUNCHER)
        return launcher is not None and Path(launcher).resolve() == (self.home / "launcher.py").resolve()

    @property
    def supervised(self) -> bool:
        """Whether the launcher stays beside this process."""
        return os.environ.get(SUPERVISED) == "1"

    def read(self) -> JsonObject:
        """All of it; nothing on a device whose agent cannot replace its file."""
        return read_json(self._path) or {}

    def change(self, change: Callable[[JsonObject], None]) -> JsonObject:
        """Change it, durably, and return what it then is."""
        with self._lock:
            launch = self.read()
            change(launch)
            write_json(self._path, launch)
            return launch

    def trial(self) -> JsonObject | None:
        """The trial that this process is on, or None."""
        launch = self.read()
        trial, current = launch.get("trial"), entry(launch, "current")
        mine = self.launched and Path(sys.argv[0]).name == current.get("file")
        return trial if mine and isinstance(trial, dict) else None


def entry(launch: JsonObject, name: str) -> dict[str, Any]:
    """A part of it that is an object; an empty one if there is none."""
    found = launch.get(name)
    return found if isinstance(found, dict) else {}


def update_lines(launch: JsonObject) -> list[str]:
    """What a person is told of it."""
    current, previous, ended = entry(launch, "current"), entry(launch, "previous"), entry(launch, "ended")
    lines = []
    if entry(launch, "trial"):
        lines.append(f"{current.get('version')} is on trial; {previous.get('version')} is kept")
    elif previous:
        lines.append(f"{current.get('version')} starts; {previous.get('version')} is kept")
    if ended:
        lines.append(f"{ended.get('version')} was given up: {ended.get('reason')}")
    return lines
