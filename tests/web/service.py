"""The real service in a process of its own, and a client that puts data into it over its REST interface."""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from safetensors.numpy import save

REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Service:
    """A running service: where it listens, an API key with every scope, and a client that uses it."""

    url: str
    key: str
    client: httpx.Client
    data_dir: Path
    process: subprocess.Popen[bytes]

    def get(self, path: str) -> Any:
        """The answer to GET /v1`path`."""
        return self._answer(self.client.get(path))

    def post(self, path: str, body: Any) -> Any:
        """The answer to POST /v1`path`."""
        return self._answer(self.client.post(path, json=body))

    def _answer(self, response: httpx.Response) -> Any:
        assert response.is_success, response.text
        return response.json()

    def upload(self, data: bytes) -> str:
        """Store a blob; its digest."""
        digest = hashlib.sha256(data).hexdigest()
        upload = self.post("/uploads", {"digest": digest, "size": len(data)})
        if not upload["complete"]:
            sent = self.client.patch(f"/uploads/{upload['id']}", content=data, headers={"Upload-Offset": "0"})
            assert sent.status_code == 204, sent.text
        return digest

    def add_model(self, name: str) -> dict[str, Any]:
        """Register a model file. The worker of these tests does not read it."""
        row: dict[str, Any] = self.post(
            "/models", {"name": name, "digest": self.upload(f"model {name}".encode() * 1000)}
        )
        return row

    def add_dataset(self, name: str, samples: int) -> dict[str, Any]:
        """Register a dataset of random images."""
        images = np.random.default_rng(0).random((samples, 3, 32, 32), dtype=np.float32)
        labels = np.arange(samples, dtype=np.int64) % 10
        digest = self.upload(save({"input": images, "labels": labels}))
        row: dict[str, Any] = self.post("/datasets", {"name": name, "digest": digest})
        return row

    def request_build(self, model: dict[str, Any], name: str, **recipe: Any) -> dict[str, Any]:
        """Request a build for the host."""
        full = {"loss": "cross_entropy", "optimizer": {"name": "sgd", "lr": 0.05}, "batch": 8, **recipe}
        order = {"model_id": model["id"], "recipe": full, "target": "host", "name": name}
        row: dict[str, Any] = self.post("/builds", order)
        return row

    def wait_for_build(self, build: dict[str, Any], state: str, seconds: float = 20) -> dict[str, Any]:
        """The build once it has this state."""
        row: dict[str, Any] = wait_until(
            lambda: self.get(f"/builds/{build['id']}"), lambda found: found["state"] == state, seconds
        )
        return row


def wait_until(look: Callable[[], Any], good: Callable[[Any], bool], seconds: float = 20) -> Any:
    """What `look` gives once it is good; fails after `seconds` with what it gave last."""
    ends_at = time.monotonic() + seconds
    while not good(found := look()):
        assert time.monotonic() < ends_at, found
        time.sleep(0.05)
    return found


DOUBLE = {"POCK_WORKER_COMMAND": json.dumps([sys.executable, "-m", "tests.web.worker"])}
"""The tests' build worker, which compiles nothing."""


PROGRAM = str(Path(sys.executable).with_name("pock-server"))


@contextmanager
def running_service(
    data_dir: Path, web_dist: Path, port: int = 0, worker: Mapping[str, str] = DOUBLE
) -> Iterator[Service]:
    """Start `pock-server serve` on a loopback port, a free one by default; without `worker` it compiles. The database
    is empty unless the folder has one."""
    environment = {
        **_environment(data_dir),
        **worker,
        "POCK_WEB_DIST": str(web_dist),
        "POCK_SANDBOX": "off",  # the tests' worker reads files of theirs
        "POCK_COMPILER_CACHE_DIR": str(data_dir / "compiler"),
        "POCK_PARALLEL_BUILDS": "2",
    }
    key = _key(data_dir)
    errors = data_dir / "errors.txt"
    with errors.open("wb") as log:
        command = [PROGRAM, "serve", "--port", str(port), "--json"]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, errors.read_text()
        url = json.loads(line)["url"]
        with _client(url, key) as client:
            wait_until(lambda: client.get("/targets").status_code, lambda status: status == 200)
            yield Service(url, key, client, data_dir, process)
    finally:
        process.terminate()
        process.wait(timeout=20)


@contextmanager
def workspace(service: Service, name: str) -> Iterator[Service]:
    """The same service, seen by an administrator of another workspace, which is made if there is none."""
    key = _key(service.data_dir, "--workspace", name)
    with _client(service.url, key) as client:
        yield replace(service, key=key, client=client)


def _client(url: str, key: str) -> httpx.Client:
    return httpx.Client(base_url=f"{url}/v1", headers={"Authorization": f"Bearer {key}"}, timeout=20)


def _environment(data_dir: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH")))),
        "POCK_DATA_DIR": str(data_dir),
    }


def _key(data_dir: Path, *options: str) -> str:
    """A new API key with every scope."""
    command = [PROGRAM, "create-key", "--json", *options]
    made = subprocess.run(command, env=_environment(data_dir), check=True, capture_output=True)
    key: str = json.loads(made.stdout)["key"]
    return key
