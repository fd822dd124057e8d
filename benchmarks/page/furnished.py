"""A service with something in it for every view of the page, and the addresses of the views."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from pock_server.signing import read_key
from tests.server.updating.agent_files import agent_file, document
from tests.web.blocks import BATCH, CLASSES, block_network
from tests.web.data import start_run
from tests.web.device import Device, evaluation, report, step
from tests.web.service import Service, running_service

BLOCKS = 6
STEPS = 400
SAMPLES = 96
SHELF = 30
"""Devices that only stand in the fleet."""
NEW_AGENT = "0.2.0"
_ABLE = {"agent_version": "0.1.0", "features": ["updates"], "machine": "x86_64"}
_BUILD_SECONDS = 300
_SCHEMES = {"biases": [{"params": "*bias"}], "head": [{"params": "head*"}]}
_ACCURACY = {("desk", "biases"): 0.88, ("desk", "head"): 0.84, ("attic", "biases"): 0.91, ("attic", "head"): 0.8}

VIEWS = {
    "overview": "/",
    "models": "/models",
    "model": "/models/{model}",
    "scheme": "/models/{model}/scheme",
    "graph": "/models/{model}/graph",
    "datasets": "/datasets",
    "dataset": "/datasets/{dataset}",
    "builds": "/builds",
    "builds as a matrix": "/builds?show=matrix&model={model}",
    "build": "/builds/{build}",
    "artifact": "/artifacts/{artifact}",
    "fleet": "/fleet",
    "device": "/devices/{device}",
    "runs": "/runs",
    "run": "/runs/{run}",
    "campaigns": "/campaigns",
    "campaign": "/campaigns/{campaign}",
    "compare": "/compare?runs={runs}",
    "admin": "/admin",
    "admin members": "/admin/members",
    "admin keys": "/admin/keys",
    "admin sessions": "/admin/sessions",
    "admin audit": "/admin/audit",
    "admin usage": "/admin/usage",
    "admin tuning": "/admin/tuning",
    "admin rollouts": "/admin/rollouts",
    "admin rollout": "/admin/rollouts/{rollout}",
    "admin webhooks": "/admin/webhooks",
    "admin webhook": "/admin/webhooks/{webhook}",
}
"""Name of each view, and its address with places for what `Furnished.ids` names."""


@dataclass(frozen=True)
class Furnished:
    """A service, and what the places in the addresses of its views stand for."""

    service: Service
    ids: dict[str, str]

    def address(self, view: str) -> str:
        """Raises KeyError where there is no such view."""
        return VIEWS[view].format(**self.ids)


@contextmanager
def furnished_service(dist: Path) -> Iterator[Furnished]:
    """Filled the way people and devices do it, over the REST interface, with the real compiler."""
    with (
        tempfile.TemporaryDirectory(prefix="pock-page-") as name,
        running_service(Path(name), dist, worker={}) as service,
    ):
        people = _people(service)
        model, dataset = _model(service), _dataset(service)
        builds = _builds(service, model)
        devices = [Device(service, name, _ABLE) for name in ("desk", "attic")]
        for number in range(SHELF):
            Device(service, f"shelf-{number}")
        runs = [_done_run(service, device, build, dataset) for device in devices for build in builds]
        start_run(service, builds[0], devices[0], dataset)
        yield Furnished(
            service,
            {
                "model": model["id"],
                "dataset": dataset["id"],
                "build": builds[0]["id"],
                "artifact": builds[0]["artifact_digest"],
                "device": devices[0].id,
                "run": runs[0],
                "runs": ",".join(runs),
                "campaign": _campaign(service, builds, dataset),
                "rollout": _rollout(service, devices),
                **people,
            },
        )


def _model(service: Service) -> dict[str, Any]:
    row: dict[str, Any] = service.post("/models", {"name": "blocks", "digest": service.upload(block_network(BLOCKS))})
    return row


def _dataset(service: Service) -> dict[str, Any]:
    images = np.random.default_rng(0).random((SAMPLES, 1, 8, 8), dtype=np.float32)
    labels = np.arange(SAMPLES, dtype=np.int64) % CLASSES
    digest = service.upload(save({"image": images, "labels": labels}))
    row: dict[str, Any] = service.post("/datasets", {"name": "patterns", "digest": digest})
    return row


def _builds(service: Service, model: dict[str, Any]) -> list[dict[str, Any]]:
    """One of each scheme, and one that failed."""
    typo = service.request_build(model, "typo", loss="cross_entrpy", batch=BATCH)
    asked = [service.request_build(model, name, update=rules, batch=BATCH) for name, rules in _SCHEMES.items()]
    service.wait_for_build(typo, "failed", _BUILD_SECONDS)
    return [service.wait_for_build(build, "succeeded", _BUILD_SECONDS) for build in asked]


def _done_run(service: Service, device: Device, build: dict[str, Any], dataset: dict[str, Any]) -> str:
    """A run that succeeded; its id."""
    run = start_run(service, build, device, dataset, STEPS)
    accuracy = _ACCURACY[run["device_name"], build["name"]]
    planned = build["summary"]["predicted_peak_bytes"]
    told = report(STEPS, planned + 100_000, planned)
    told["eval_after"]["accuracy"] = accuracy
    device.take_run()
    steps = ({**step(number % 200 + 1), "step": number} for number in range(1, STEPS + 1))
    device.report(evaluation("eval_before", 0.31), *steps, evaluation("eval_after", accuracy))
    device.finish(state="succeeded", report=told)
    return str(run["id"])


def _campaign(service: Service, builds: list[dict[str, Any]], dataset: dict[str, Any]) -> str:
    """One that waits for its devices; its id."""
    order = {"name": "both schemes", "build_ids": [build["id"] for build in builds], "on": "*", "steps": STEPS}
    started = service.post("/campaigns", {**order, "dataset_id": dataset["id"], "seeds": [1, 2], "retries": {}})
    return str(started["id"])


def _rollout(service: Service, devices: list[Device]) -> str:
    """Of an agent that is offered to the first device; its id."""
    content = agent_file(NEW_AGENT)
    service.upload(content)
    signed = document(content, NEW_AGENT, datetime.now(UTC), read_key(service.data_dir / "keys" / "root.pem"))
    release = service.post("/agent-releases", {"document": signed.model_dump(), "notes": "what is new"})
    rollout = service.post("/rollouts", {"release_id": release["id"], "on": "*"})
    for device in devices:
        device.heartbeat()
    return str(rollout["id"])


def _people(service: Service) -> dict[str, str]:
    """Members, keys, a webhook and knowledge of kernels; of the webhook the id."""
    for name, role in (("Alice Example", "operator"), ("nightly-builds", "developer")):
        member = service.post("/members", {"name": name, "role": role, "email": None})
        service.post("/api-keys", {"name": f"{name}, laptop", "scopes": ["read"], "member_id": member["id"]})
    for family, sizes in (("matmul", "16,32,64"), ("conv", "8,8,3")):
        inputs = {"family": family, "device": "x86_64 skylake", "sizes": sizes}
        entry = {"inputs": inputs, "choice": {"tile": 2}, "ms": 0.9, "model_ms": 1.2}
        service.post("/tuning", {"target": "host", "entries": [entry]})
    hook = {"url": "https://nobody.invalid/hook", "events": ["run.failed"], "description": "chat of the team"}
    return {"webhook": service.post("/webhooks", hook)["id"]}
