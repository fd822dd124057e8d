"""Agents on this machine that are installed as one file, and releases for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from device_agent.onefile import build as onefile
from device_agent.onefile.build import ARCHITECTURES
from pock_agent import __version__
from pock_client import Client
from tests.client.service import Service

Break = Callable[[dict[str, bytes]], None]
"""Changes the files of a release so that it does not do."""


def file_of(path: Path, version: str, spoil: Break | None = None) -> Path:
    """The agent as one file of this version. It takes its libraries from this Python: only that makes it small."""
    files = onefile.own_files() | {f"{one}/libraries": b"none" for one in ARCHITECTURES}
    return write_version(path, files, version, spoil)


def write_version(path: Path, files: dict[str, bytes], version: str, spoil: Break | None) -> Path:
    """The archive of these files, with another version in it."""
    name = "any/pock_agent/__init__.py"
    files[name] = files[name].replace(__version__.encode(), version.encode())
    if spoil is not None:
        spoil(files)
    onefile.write(path, files)
    return path


def in_run(line: str) -> Break:
    """A release that starts, and reads all that there is, but does this before it asks for work."""

    def spoil(files: dict[str, bytes]) -> None:
        name = "any/pock_agent/life/agent.py"
        before = files[name]
        files[name] = before.replace(b"    directory.lock()\n    try:\n", f"    {line}\n    try:\n".encode())
        assert files[name] != before

    return spoil


def unreadable(files: dict[str, bytes]) -> None:
    """A release that cannot be imported."""
    files["any/pock_agent/cli.py"] = b"this is no Python"


@dataclass
class Machine:
    """A device with an agent that was installed as one file."""

    state: Path
    process: subprocess.Popen[bytes] | None = None
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def launcher(self) -> list[str]:
        return [sys.executable, str(self.state / "agent" / "launcher.py"), "run", "--state-dir", str(self.state)]

    def start(self) -> None:
        """As its init does."""
        with (self.state.parent / f"{self.state.name}.log").open("ab") as log:
            self.process = subprocess.Popen(self.launcher, stdout=log, stderr=log, env=self.environment)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)

    def kill(self) -> None:
        """As a power cut does: the launcher and, where it stays beside it, the agent."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    @property
    def log(self) -> str:
        return (self.state.parent / f"{self.state.name}.log").read_text()

    @property
    def launch(self) -> dict[str, Any]:
        return dict(json.loads((self.state / "agent" / "launch.json").read_text()))


@dataclass
class Fleet:
    """A service, a client of it, and machines."""

    service: Service
    client: Client
    folder: Path
    machines: list[Machine] = field(default_factory=list)
    make: Callable[[Path, str, Break | None], Path] = file_of

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("POCK_")}
        kept.pop("PYTHONPATH", None)  # the file's own modules are to be imported
        return {**kept, "POCK_AGENT_UNPACKED": str(self.folder / "unpacked")}

    def add(self, file: Path, name: str) -> Machine:
        """Enrol and install, as a user does."""
        token = self.client.enrolment_tokens.create(name=name).token
        state = self.folder / name
        machine = Machine(state, environment=self.environment())
        for words in (["enroll", self.client.url, token, "--target", "host"], ["install", "--only-files"]):
            command = [sys.executable, str(file), *words, "--state-dir", str(state)]
            done = subprocess.run(command, env=machine.environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        machine.start()
        self.machines.append(machine)
        return machine

    def release(self, version: str, spoil: Break | None = None, *options: str) -> str:
        """Sign and push; the release's id."""
        folder = self.folder / f"release-{version}"
        folder.mkdir()
        file = self.make(folder / "pock-agent.pyz", version, spoil)
        self.service.command("agent-release", "sign", str(file), *options)
        return self.client.agent_releases.push(file).id

    def versions(self) -> dict[str, str | None]:
        return {one.name: one.agent_version for one in self.client.devices.list()}

    def states(self, rollout: str) -> dict[str, str]:
        return {one.device_name: str(one.state) for one in self.client.rollouts.devices(rollout)}

    def wait_for(self, condition: Callable[[], object], what: str, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"waited in vain for {what}\n" + "\n".join(one.log for one in self.machines)
            time.sleep(0.1)

    def close(self) -> None:
        for machine in self.machines:
            machine.stop()
