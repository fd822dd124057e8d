"""A person who repeats what was not answered, as careful clients do, and keeps a journal of all that was accepted."""

import hashlib
import os
import time
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.faults.deployment import PART, Deployment

WAIT = 180.0
"""Seconds that a loaded machine may take for anything."""
_PARTS = 4
FINAL = ("succeeded", "failed", "cancelled")


@dataclass(frozen=True)
class Accepted:
    """A request with an Idempotency-Key, and its first answer."""

    path: str
    key: str
    body: dict[str, Any]
    status: int
    answer: dict[str, Any]


@dataclass
class Person:
    """Asks for things in spite of all faults."""

    deployment: Deployment
    accepted: list[Accepted] = field(default_factory=list)
    uploaded: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        headers = {"Authorization": f"Bearer {self.deployment.key}"}
        self._client = httpx.Client(base_url=f"{self.deployment.url}/v1", headers=headers, timeout=10)

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """The first answer that is no refusal for the moment."""
        ends = time.monotonic() + WAIT
        last: object = None
        while time.monotonic() < ends:
            try:
                answer = self._client.request(method, path, **options)
            except httpx.TransportError as error:
                last = error
            else:
                if answer.is_success or not answer.content or not answer.json()["retryable"]:
                    return answer
                last = answer.text
            time.sleep(0.1)
        raise AssertionError(f"{method} {path}: {last}")

    def order(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """POST once, however often it must be sent."""
        key = os.urandom(8).hex()
        answer = self.ask("POST", path, json=body, headers={"Idempotency-Key": key})
        assert answer.is_success, answer.text
        self.accepted.append(Accepted(path, key, body, answer.status_code, answer.json()))
        return dict(answer.json())

    def get(self, path: str) -> Any:
        """What there is at `path`."""
        answer = self.ask("GET", path)
        assert answer.is_success, answer.text
        return answer.json() if "json" in answer.headers["content-type"] else answer.content

    def upload(self, data: bytes) -> str:
        """Send bytes in several requests; their digest."""
        digest = hashlib.sha256(data).hexdigest()
        began = self.ask("POST", "/uploads", json={"digest": digest, "size": len(data)}).json()
        offset = began["offset"]
        while True:
            headers = {"Upload-Offset": str(offset), "Content-Type": "application/octet-stream"}
            part = data[offset : offset + PART]
            answer = self.ask("PATCH", f"/uploads/{began['id']}", content=part, headers=headers)
            assert answer.status_code in (204, 409), answer.text
            offset = int(answer.headers["Upload-Offset"])
            if answer.status_code == 204 and offset == len(data):
                self.uploaded[digest] = data
                return digest

    def model(self) -> str:
        """A new model's id."""
        digest = self.upload(os.urandom(PART * _PARTS))
        return str(self.order("/models", {"name": "net", "digest": digest})["id"])

    def until(self, path: str, *states: str) -> dict[str, Any]:
        """What is at `path`, as soon as it is in one of these states."""
        ends = time.monotonic() + WAIT
        while (found := self.get(path))["state"] not in states:
            assert time.monotonic() < ends, f"{path} is still {found['state']}"
            time.sleep(0.05)
        return dict(found)

    def build(self, model: str) -> dict[str, Any]:
        """Ask for a build of a model; a failed one may be asked for again."""
        return self.order("/builds", {"model_id": model, "recipe": {"batch": 2}, "target": "host"})

    def run(self, build: str, device: str, dataset: str) -> dict[str, Any]:
        """Ask for a run."""
        order = {"build_id": build, "device_id": device, "dataset_id": dataset, "steps": 5, "save_weights": True}
        return self.order("/runs", order)
