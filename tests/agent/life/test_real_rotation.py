"""The agent's own process goes on working while the service's keys change under it: signing key, root key, both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pock_agent import cli
from pock_agent.disk.directory import StateDirectory
from pock_agent.life import agent
from tests.agent.life.test_real_service import QUICK, ROOT, SERVER, Person, wait_for

RUN_FOR_EVER = (
    "import sys; from pathlib import Path; from pock_agent.life import agent;"
    "from pock_agent.disk.directory import StateDirectory; from tests.agent.driver import FAST;"
    "agent.run(StateDirectory(Path(sys.argv[1])), FAST)"
)


class Service:
    """A `pock-server` process, its data folder, and the command line on its machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, **QUICK, "POCK_DATA_DIR": str(folder)}
        key = self.command("create-key").strip()
        self.process = subprocess.Popen(
            [*SERVER, "serve", "--port", "0", "--json"], env=self.environment, cwd=ROOT, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        self.person = Person(json.loads(self.process.stdout.readline())["url"], key)

    def command(self, *words: object) -> str:
        """`pock-server WORDS`, which has to succeed."""
        line = [*SERVER, *map(str, words)]
        done = subprocess.run(line, env=self.environment, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def said(self, *words: object) -> dict[str, Any]:
        """The JSON that a command prints."""
        return dict(json.loads(self.command(*words, "--json")))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    started = Service(tmp_path / "service")
    try:
        yield started
    finally:
        started.process.terminate()
        started.process.communicate(timeout=20)


@pytest.fixture
def state(service: Service, tmp_path: Path) -> StateDirectory:
    folder = tmp_path / "state"
    assert cli.main(["enroll", service.person.url, service.person.token(), "--state-dir", str(folder)]) == 0
    return StateDirectory(folder)


@pytest.fixture
def running_agent(state: StateDirectory) -> Iterator[subprocess.Popen[bytes]]:
    """The agent, in a process of its own, until the end of the test."""
    process = subprocess.Popen([sys.executable, "-c", RUN_FOR_EVER, str(state.root)], cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_keys_change_while_the_agent_works(
    service: Service, state: StateDirectory, running_agent: subprocess.Popen[bytes], flag: Path, tmp_path: Path
) -> None:
    person, build = service.person, service.person.build()
    device = str(agent.status(state.root)["device_id"])

    def order(told: object = None) -> str:
        return person.run(build, device, told)

    def has_done(run: str, version: int) -> None:
        """The run came to a good end at its first attempt, and the agent believes this version."""
        wait_for(lambda: person.state(run)["finished_at"], f"run {run}")
        found = person.state(run)
        assert (found["state"], found["attempt"]) == ("succeeded", 1), found["failure"]
        wait_for(lambda: agent.status(state.root)["trust_version"] == version, f"version {version}")

    has_done(order(), 1)
    # A new signing key while a job is in hand: the job goes on, and the next one is signed by the new key.
    long = order({"train": {"hang_while": str(flag)}, "eval": {}, "eval_loaded": {}})
    wait_for(lambda: (person.state(long)["progress"] or {}).get("step") == 5, "the steps")
    second = service.said("rotate-keys")
    flag.unlink()
    has_done(long, 2)
    has_done(order(), 2)
    assert agent.status(state.root)["signing_keys"] == second["signing_keys"]
    # Another root key, signed by both; then the first is gone, and the new one signs away from the service.
    root, away, draft = service.folder / "keys" / "root.pem", tmp_path / "away.pem", tmp_path / "draft.json"
    service.command("trust", "new-root-key", away)
    service.said("rotate-keys", "--new-root", f"{away}.pub", "--root-key", root, "--root-key", away)
    root.unlink()
    has_done(order(), 3)
    service.said("rotate-keys", "--draft", draft)
    service.said("trust", "sign", draft, "--root-key", away)
    fourth = service.said("trust", "publish", draft, "--revoke", second["signing_keys"][0], "--yes")
    assert fourth["revoked"] == []
    has_done(order(), 4)
    assert agent.status(state.root)["signing_keys"] == fourth["signing_keys"]
    assert running_agent.poll() is None
