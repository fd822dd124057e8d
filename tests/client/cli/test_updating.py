"""`agent-release` and `rollout`: what a person sees of a fleet that is updated."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pock_server.signing import read_key
from tests.client.cli.conftest import Person, Pock
from tests.server.harness import Device
from tests.server.updating.agent_files import agent_file, document, facts_of_agent


@pytest.fixture
def devices(person: Person) -> Iterator[list[Device]]:
    """Two whose agents replace themselves."""
    with httpx.Client(base_url=person.service.url, trust_env=False, timeout=60) as client:
        made = []
        for name in ("attic", "cellar"):
            device = Device(client, Ed25519PrivateKey.generate())  # type: ignore[arg-type]
            assert device.enrol(
                person.json("enroll-token", "--name", name)["token"], facts_of_agent("0.1.0")
            ).is_success
            assert device.open_session().status_code == 200
            made.append(device)
        yield made


def released(person: Person, version: str, **changes: Any) -> Path:
    """A file of the agent, with its document beside it."""
    file = person.folder / "pock-agent.pyz"
    file.write_bytes(agent_file(version))
    root = read_key(person.service.services.settings.effective_root_key_file)
    signed = document(file.read_bytes(), version, datetime.now(UTC), root, **changes)
    (person.folder / "pock-agent.pyz.release.json").write_text(signed.model_dump_json())
    return file


def wait_for_offer(device: Device) -> None:
    while "pock-update" not in device.call("GET", "/work?wait=0&update=none").headers:
        time.sleep(0.05)


def tell(device: Device, rollout: str, state: str, detail: str = "") -> None:
    body = {"rollout_id": rollout, "state": state, "version": "0.2.0", "detail": detail}
    assert device.call("POST", "/update", json=body).status_code == 200


def test_a_release_is_pushed_listed_and_forgotten(person: Person, pock: Pock) -> None:
    file = released(person, "0.2.0")
    said = pock("agent-release", "push", file, "--notes", "less \x1b[31mmemory".replace("\x1b", "~"))
    assert said.status == 0 and f"{file}: agent 0.2.0 for linux-aarch64, linux-x86_64, until" in said.out
    assert "0.2.0" in pock("agent-release", "list").out
    assert [one["version"] for one in person.json("agent-release", "list")["items"]] == ["0.2.0"]
    assert pock("agent-release", "delete", "0.2.0").status == 0
    assert "no releases" in pock("agent-release", "list").err
    assert pock("agent-release", "delete", "0.2.0").status == 1
    (person.folder / "pock-agent.pyz.release.json").unlink()
    said = pock("agent-release", "push", file)
    assert said.status == 1 and "pock-server agent-release sign" in said.err


def test_a_rollout_from_its_beginning_to_its_end(person: Person, pock: Pock, devices: list[Device]) -> None:
    pock("agent-release", "push", released(person, "0.2.0"))
    said = pock("rollout", "create", "0.2.0", "--on", "*", "--canary", "2", "--healthy", "1")
    assert said.status == 0 and "of 0.2.0 is running" in said.out
    (rollout,) = person.json("rollout", "list")["items"]
    assert pock("rollout", "show", "0.2.0", "--wait", "--timeout", "0").status == 5
    rests = {"reason": "the owner's policy.toml: only at 22:00-06:30", "until": "2030-01-01T22:00:00Z"}
    devices[0].call("POST", "/heartbeat", json={"state": "idle", "resting": rests})
    wait_for_offer(devices[0])
    assert "it rests: the owner's policy.toml: only at 22:00-06:30, until 20" in pock("rollout", "show", "0.2.0").out
    assert "is paused" in pock("rollout", "pause", "0.2.0").out
    assert "is running" in pock("rollout", "resume", rollout["id"]).out
    for device in devices:
        tell(device, rollout["id"], "started")
        device.call("POST", "/heartbeat", json={"state": "idle", "facts": facts_of_agent("0.2.0")})
    said = pock("rollout", "show", "0.2.0", "--wait", "--timeout", "60")
    assert said.status == 0, said.err
    assert "2 healthy" in said.out and "attic" in said.out and "cellar" in said.out and "canary" in said.out
    shown = person.json("rollout", "show", "0.2.0")
    assert (shown["state"], {one["state"] for one in shown["items"]}) == ("succeeded", {"healthy"})
    assert "is reverting" in pock("rollout", "roll-back", "0.2.0").out
    for device in devices:
        tell(device, rollout["id"], "rolled_back", "the service took it back")
    assert person.json("rollout", "show", "0.2.0", "--wait", "--timeout", "60")["state"] == "reverted"


def test_one_that_stops_says_why_and_ends_with_3(person: Person, pock: Pock, devices: list[Device]) -> None:
    pock("agent-release", "push", released(person, "0.2.0"))
    rollout = person.json("rollout", "create", "0.2.0", "--on", "name=attic")["id"]
    wait_for_offer(devices[0])
    tell(devices[0], rollout, "rolled_back", "it ended with exit code 1, 3 times")
    said = pock("rollout", "show", rollout[-8:], "--wait", "--timeout", "60")
    assert said.status == 3 and "stopped: 1 of the devices failed, and 0 may" in said.out
    assert "it ended with exit code 1, 3 times" in said.out
    assert "is cancelled" in pock("rollout", "cancel", rollout).out


@pytest.mark.parametrize(
    "words,status,says",
    [
        (["create", "7.7.7", "--on", "*"], 1, "there is no agent release '7.7.7'"),
        (["create", "0.2.0", "--on", "pool=nowhere"], 1, "no active device matches 'pool=nowhere'"),
        (["create", "0.2.0", "--on", "*", "--stages", "ten"], 2, "'ten' is no list such as 10,50,100"),
        (["show", "9.9.9"], 1, "no rollout is called '9.9.9'"),
    ],
)
def test_what_cannot_be_is_a_sentence(person: Person, pock: Pock, words: list[str], status: int, says: str) -> None:
    pock("agent-release", "push", released(person, "0.2.0"))
    said = pock("rollout", *words)
    assert said.status == status and says in " ".join(said.err.replace("│", " ").split()), said.err
