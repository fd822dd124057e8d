"""One real service with a real build for each target; every test brings its own device."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from demo import fleet, service
from demo.client import Client, Json
from tests.e2e.small_model import RECIPE, Files, make_files

BUILD_SECONDS = 300.0
RUN_SECONDS = 300.0


@dataclass(frozen=True)
class Scene:
    """A running service with a model, two datasets and a build per target."""

    url: str
    client: Client
    home: Path
    builds: dict[str, Json]
    data: dict[str, str]

    def enroll(self, name: str, target: str, folder: Path) -> tuple[fleet.Device, str]:
        """A new device and its id."""
        device = fleet.Device(name, target, folder)
        return device, fleet.enroll(device, self.url, self.client)

    def request_run(self, device_id: str, target: str, steps: int) -> str:
        """Ask the device to train; the run's path."""
        body = {"build_id": self.builds[target]["id"], "device_id": device_id, "entry": "train", "steps": steps}
        return f"/runs/{self.client.post('/runs', {**body, **self.data, 'save_weights': True})['id']}"

    def finished(self, path: str) -> Json:
        """The run once it has succeeded."""
        return self.client.wait(path, lambda answer: None, RUN_SECONDS)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="session")
def scene(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    home = tmp_path_factory.mktemp("service")
    with service.serving(home) as address, Client(address.url, address.key) as client:
        model = client.post("/models", {"name": "small", "digest": client.upload(files.model)})
        builds = {}
        for target in ("host", fleet.PI):
            order = {"model_id": model["id"], "recipe": RECIPE, "target": target, "threads": 2}
            request = client.post("/builds", order)
            builds[target] = client.wait(f"/builds/{request['id']}", lambda answer: None, BUILD_SECONDS)
        data = {
            "dataset_id": client.post("/datasets", {"name": "train", "digest": client.upload(files.train)})["id"],
            "eval_dataset_id": client.post("/datasets", {"name": "eval", "digest": client.upload(files.held_out)})[
                "id"
            ],
        }
        yield Scene(address.url, client, home, builds, data)
