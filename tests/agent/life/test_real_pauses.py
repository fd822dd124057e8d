"""A compiled model on a real agent of a real service, paused by its owner and by the service: it loses nothing."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import save

from pock_agent import cli
from pock_agent.disk.directory import StateDirectory
from pock_agent.life import agent
from pockengine.targets import get
from tests.agent.driver import FAST, spawn
from tests.agent.life.test_real_service import QUICK, ROOT, SERVER, Person, wait_for
from tests.compiler.runtime.toy import Toy

TOY = Toy(batch=4, features=8000, classes=50, rate=0.001, accumulate=2, noisy=True)
STEPS = 500
PAUSES = 4
NEVER = {"max_minutes_per_day": 0}


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """A service whose builds all are the toy, and someone who may do everything there."""
    folder = tmp_path_factory.mktemp("toy-service")
    toy = folder / "toy"
    TOY.build(toy, get("host"))
    pixels = {"name": "input", "dtype": "f32", "shape": [TOY.batch, TOY.features], "target": False, "optional": False}
    labels = {"name": "labels", "dtype": "i64", "shape": [TOY.batch], "target": True, "optional": False}
    (toy / "inputs.json").write_text(json.dumps([pixels, labels]))
    worker = json.dumps([sys.executable, "-m", "tests.agent.toy_build_worker", str(toy)])
    places = {"POCK_DATA_DIR": str(folder / "service"), "POCK_COMPILER_CACHE_DIR": str(folder / "cache")}
    environment = {**os.environ, **QUICK, **places, "POCK_WORKER_COMMAND": worker}
    key = [*SERVER, "create-key"]
    made = subprocess.run(key, env=environment, cwd=ROOT, check=True, capture_output=True, text=True)
    serve = [*SERVER, "serve", "--port", "0", "--json"]
    server = subprocess.Popen(
        serve, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert server.stdout is not None
    try:
        yield Person(json.loads(server.stdout.readline())["url"], made.stdout.strip())
    finally:
        server.terminate()
        server.communicate(timeout=20)


@pytest.fixture(scope="module")
def order(person: Person) -> dict[str, Any]:
    """A run of the toy, but for its device and steps."""
    data = person.call("POST", "/datasets", {"name": "d", "digest": person.upload(save(dict(TOY.dataset(26))))})
    return {"build_id": person.build(), "dataset_id": data["id"], "seed": 5}


def outcome(person: Person, run: str) -> tuple[list[Any], list[Any], bytes]:
    """Steps with their losses as the service got them, the report's losses, and the trained weights."""
    found, items, after = person.state(run), list[Any](), -1
    assert (found["state"], found["attempt"], found["paused"]) == ("succeeded", 1, None)
    while part := person.call("GET", f"/runs/{run}/steps?after={after}")["items"]:
        items += part
        after = part[-1]["step"]
    steps = [(item["step"], item["loss"]) for item in items]
    return steps, found["report"]["train"]["loss"], person.call("GET", f"/blobs/sha256/{found['weights_digest']}")


def forbid(person: Person, state: StateDirectory, device: str, by_owner: bool) -> None:
    """Set a policy: the owner's on the device, or the service's."""
    if by_owner:
        state.owners_policy.write_text("max_minutes_per_day = 0\n")
    else:
        person.call("PUT", f"/devices/{device}/policy", NEVER)


def allow(person: Person, state: StateDirectory, device: str, by_owner: bool) -> None:
    if by_owner:
        state.owners_policy.unlink()
    else:
        person.call("DELETE", f"/devices/{device}/policy")


def test_a_training_paused_at_random_steps_is_the_one_that_never_was(
    person: Person, order: dict[str, Any], tmp_path: Path
) -> None:
    """Losses and weights bit for bit, no step told twice or never; killed in one of the pauses."""
    state = StateDirectory(tmp_path / "state")
    assert cli.main(["enroll", person.url, person.token(), "--state-dir", str(state.root)]) == 0
    device = str(agent.status(state.root)["device_id"])
    order = {**order, "device_id": device, "steps": STEPS, "save_weights": True}
    whole = str(person.call("POST", "/runs", order)["id"])
    assert agent.run(state, FAST, once=True)

    run = str(person.call("POST", "/runs", order)["id"])
    process, draw, seen = spawn(state.root), random.Random(8), 0
    for pause in range(PAUSES):
        mark = seen + draw.randrange(1, STEPS // (2 * PAUSES))
        wait_for(lambda: ((person.state(run)["progress"] or {}).get("step") or 0) > mark, f"step {mark}")  # noqa: B023
        forbid(person, state, device, by_owner := pause % 2 == 0)
        wait_for(lambda: person.state(run)["paused"], "the pause")
        shown = person.state(run)
        whose = str(state.owners_policy) if by_owner else "this device's policy at the service"
        assert shown["state"] == "running" and whose in shown["paused"]["reason"] and shown["paused"]["until"]
        assert person.call("GET", f"/devices/{device}")["current_run_id"] == run
        if pause == 1:
            process.kill()
            process.communicate()
            process = spawn(state.root)
        seen = (shown["progress"] or {}).get("step") or 0
        allow(person, state, device, by_owner)
    process.communicate(timeout=120)
    expected, found = outcome(person, whole), outcome(person, run)
    assert [step for step, _ in found[0]] == list(range(1, STEPS + 1))
    assert found == expected
    health = person.state(run)["report"]["health"]
    assert health["pauses"] >= PAUSES and health["starts"] == 1


def test_a_device_that_rests_takes_work_when_it_may(person: Person, order: dict[str, Any], tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "state")
    assert cli.main(["enroll", person.url, person.token(), "--state-dir", str(state.root)]) == 0
    device = str(agent.status(state.root)["device_id"])
    person.call("PUT", f"/devices/{device}/policy", NEVER)
    process = spawn(state.root)
    try:
        wait_for(lambda: person.call("GET", f"/devices/{device}/policy")["known"], "the device to say that it knows")
        process.kill()
        process.communicate()
        process = spawn(state.root)  # what it knows, it knows from its disk: it never asks for work
        wait_for(lambda: person.call("GET", f"/devices/{device}")["resting"], "the device to rest")
        run = str(person.call("POST", "/runs", {**order, "device_id": device, "steps": 2})["id"])
        assert person.state(run)["state"] == "queued"
        person.call("DELETE", f"/devices/{device}/policy")
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert person.state(run)["state"] == "succeeded"
