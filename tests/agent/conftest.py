"""A service double, an enrolled device, and jobs for it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pock_agent.disk.directory import StateDirectory
from pock_agent.disk.identity import Identity
from pock_agent.life import agent, enrollment
from pock_agent.place.this_machine import ThisMachine
from pock_agent.trust.keyring import Keyring
from tests.agent import fake_model
from tests.agent.driver import FAST
from tests.agent.service_double import ServiceDouble


@pytest.fixture
def double() -> Iterator[ServiceDouble]:
    service = ServiceDouble()
    yield service
    service.close()


@dataclass
class Device:
    """An enrolled agent and the service it belongs to."""

    double: ServiceDouble
    state: StateDirectory
    identity: Identity

    @property
    def keys(self) -> Keyring:
        """What the device believes, as it lies on disk."""
        return Keyring(self.state, self.identity, FAST)

    def job(self, told: object = None, evaluate: bool = True, **changes: Any) -> dict[str, Any]:
        """A proper payload; `changes` replace or extend its parts (`run`, `limits`, ...)."""
        payload = self.double.payload(
            self.identity.device_id, fake_model.SOURCE, fake_model.dataset(told or {}), evaluate
        )
        for name, value in changes.items():
            payload[name] = {**payload[name], **value} if isinstance(value, dict) else value
        return payload

    def give(self, told: object = None, **changes: Any) -> str:
        """Queue a proper job; its run id."""
        payload = self.job(told, **changes)
        self.double.give(self.double.seal(payload))
        return str(payload["run_id"])

    def run(self, **settings: Any) -> bool:
        """Run the agent for one job in this process."""
        return agent.run(self.state, FAST.__class__(**{**vars(FAST), **settings}), once=True)

    def carry_out(self, told: object = None, **changes: Any) -> dict[str, Any]:
        """Give a job, run it, and return the one result that the service received."""
        run_id = self.give(told, **changes)
        self.run()
        results = self.double.results[run_id]
        assert len(results) == 1
        return dict(results[0])


def enroll(double: ServiceDouble, root: Path, target: str | None = None) -> Device:
    double.tokens.add("good-token")
    state = StateDirectory(root)
    identity = enrollment.enroll(
        enrollment.Enrollment(double.url, "good-token", "pi", target), state, FAST, ThisMachine()
    )
    return Device(double, state, identity)


@pytest.fixture
def device(double: ServiceDouble, tmp_path: Path) -> Device:
    return enroll(double, tmp_path / "state")


@pytest.fixture
def flag() -> Iterator[Path]:
    """A file that the unprivileged child can see; what waits for it goes on once it is removed."""
    folder = Path(tempfile.mkdtemp(prefix="pock-flag-"))
    os.chmod(folder, 0o755)
    path = folder / "flag"
    path.touch()
    yield path
    shutil.rmtree(folder, ignore_errors=True)
