"""One real service with a real build for each target; every test brings its own device."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from demo import fleet, service
from pock_client import Client
from tests.e2e.small_model import RECIPE, Files, make_files
from tests.turns import by_turns

BUILD_SECONDS = 300.0
RUN_SECONDS = 300.0
TUNING = {"EMULATED": "true", "PARALLEL": "1", "PATIENCE_SECONDS": "30"}
"""Agents are on one machine, where only one measures at a time."""


@dataclass(frozen=True)
class Scene:
    """A running service with a model, two datasets and a build per target."""

    url: str
    client: Client
    home: Path
    builds: dict[str, Any]
    data: dict[str, Any]

    def enroll(self, name: str, target: str, folder: Path) -> tuple[fleet.Device, str]:
        """A new device and its id."""
        device = fleet.Device(name, target, folder)
        return device, fleet.enroll(device, self.url, self.client)

    def request_run(self, device_id: str, target: str, steps: int, **options: Any) -> str:
        """Ask the device to train; the run's id."""
        order = {"build": self.builds[target], "device": device_id, "steps": steps, **self.data, **options}
        return self.client.runs.create(save_weights=True, **order).id

    def finished(self, run_id: str) -> Any:
        """The run once it succeeded, of which tests read what they know to be there."""
        return self.client.runs.wait(run_id, timeout=RUN_SECONDS)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="session")
def scene(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    home = tmp_path_factory.mktemp("service")
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:  # for the service alone: other tests run in this process
            for name, value in TUNING.items():
                patch.setenv(f"POCK_TUNING_{name}", value)
            address = stack.enter_context(service.serving(home))
        (process,) = (child for child in psutil.Process().children() if str(home / "data") in child.cmdline())
        stack.enter_context(by_turns(Path(__file__).parent, lambda: (process,)))
        client = stack.enter_context(Client(address.url, address.key))
        model = client.models.push(files.model)
        builds: dict[str, Any] = {}
        for target in ("host", fleet.PI):
            request = client.builds.create(model=model, recipe=RECIPE, target=target, threads=2)
            builds[target] = client.builds.wait(request.id, timeout=BUILD_SECONDS)
        data = {"dataset": client.datasets.push(files.train), "eval_dataset": client.datasets.push(files.held_out)}
        yield Scene(address.url, client, home, builds, data)
