"""A device that does over HTTP what an agent does, step by step, so that a test decides when something is reported."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.web.service import Service

FACTS = {
    "target": "host",
    "agent_version": "0.1.0",
    "cpu_model": "Cortex-A72",
    "cores": 4,
    "memory_bytes": 4 * 1024**3,
    "health": {"temperature_c": 48.5, "battery_percent": None},
}


class Device:
    """Enrolled on construction, with a session of its own."""

    def __init__(
        self, service: Service, name: str, facts: dict[str, Any] | None = None, token: str | None = None
    ) -> None:
        self._key = Ed25519PrivateKey.generate()
        self._client = httpx.Client(base_url=f"{service.url}/v1", timeout=20)
        token = token or service.post("/enrollment-tokens", {"name": name})["token"]
        public = base64.b64encode(self._key.public_key().public_bytes_raw()).decode()
        order = {"token": token, "name": name, "public_key": public, "facts": {**FACTS, **(facts or {})}}
        self.id = self._post("/enroll", order)["device_id"]
        self._next_event = 0
        self.run_id, self._fence = "", 0
        self.open_session(counter=1)

    def open_session(self, counter: int) -> httpx.Response:
        """Open a session; a counter used before gets the device quarantined."""
        issued_at = datetime.now(UTC).isoformat()
        message = f"pock-session\n{self.id}\n{counter}\n{issued_at}".encode()
        signature = base64.b64encode(self._key.sign(message)).decode()
        order = {"device_id": self.id, "counter": counter, "issued_at": issued_at, "signature": signature}
        response = self._client.post("/agent/session", json=order)
        if response.is_success:
            self._client.headers["Authorization"] = f"Bearer {response.json()['session_token']}"
        return response

    def heartbeat(self) -> None:
        """Tell that the device is there."""
        self._post("/agent/heartbeat", {"state": "idle"})

    def report_update(self, rollout_id: str, state: str, version: str, detail: str = "") -> None:
        """Tell how it goes with a release that was offered."""
        order = {"rollout_id": rollout_id, "state": state, "version": version, "detail": detail}
        self._post("/agent/update", order)

    def take_run(self) -> None:
        """Take the next run and start it."""
        envelope = self._client.get("/agent/work", params={"wait": 10})
        assert envelope.status_code == 200, envelope.text
        work = json.loads(base64.b64decode(envelope.json()["payload"]))
        self.run_id, self._fence, self._next_event = work["run_id"], work["fence"], 0
        self._post(f"/agent/runs/{self.run_id}/lease", {"fence": self._fence})

    def report(self, *events: dict[str, Any]) -> None:
        """Send lines of the executable."""
        order = {"fence": self._fence, "first_seq": self._next_event, "events": list(events)}
        self._next_event = self._post(f"/agent/runs/{self.run_id}/events", order)["next_seq"]

    def finish(self, **result: Any) -> None:
        """Send the result."""
        self._post(f"/agent/runs/{self.run_id}/result", {"fence": self._fence, **result})

    def tell_data(self, *datasets: dict[str, Any]) -> None:
        """Tell of the data that stay here."""
        answer = self._client.put("/agent/datasets", json={"datasets": datasets, "digest": "0" * 64})
        assert answer.is_success, answer.text

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        response = self._client.post(path, json=body)
        assert response.is_success, response.text
        return response.json()


def step(number: int) -> dict[str, Any]:
    """Event of a training step: the loss falls from 2.3 by 5 % a step, the time is 10 to 12 ms."""
    return {"event": "step", "phase": "train", "step": number, "loss": loss(number), "ms": 10 + number % 5 * 0.5}


def loss(number: int) -> float:
    """Loss of a step, counted from 1."""
    return float(2.3 * 0.95 ** (number - 1))


def evaluation(phase: str, accuracy: float) -> dict[str, Any]:
    """Event of an evaluation."""
    return {"event": "eval", "phase": phase, "samples": 360, "loss": 1 - accuracy, "accuracy": accuracy}


def report(steps: int, peak_rss_bytes: int, planned: int) -> dict[str, Any]:
    """The agent's report of a training run with evaluations before and after."""
    times = [step(number)["ms"] for number in range(1, steps + 1)]
    common = {"target": "host", "threads": 2}
    return {
        "train": {
            **common,
            "entry": "train",
            "steps": steps,
            "loss": [loss(number) for number in range(1, steps + 1)],
            "step_ms": {"median": 11.0, "p10": 10.0, "p90": 12.0, "samples": times},
            "stability": {"relative_interval": 0.031, "samples": steps, "stable": True, "tries": 1},
            "cold_start_ms": 84.0,
            "peak_rss_bytes": peak_rss_bytes,
            "predicted_peak_bytes": planned,
            "kernels": [
                {"name": "layers.15.conv", "kernel": "k_conv2d", "ms": 0.75, "flops": 16_000_000, "bytes": 262_144},
                {"name": "layers.3.conv", "kernel": "k_conv2d", "ms": 0.25, "flops": 4_000_000, "bytes": 262_144},
            ],
        },
        "eval_before": {**common, "entry": "eval", "steps": 45, "samples": 360, "loss": [1.9], "accuracy": 0.31},
        "eval_after": {**common, "entry": "eval", "steps": 45, "samples": 360, "loss": [0.2], "accuracy": 0.94},
        "health": {"max_temperature_c": 51.5, "throttled": False, "after": {"free_memory_bytes": 2**31}},
    }
