"""`devices policy`: of a device and of a pool; runs on data that stays on devices, and runs that are paused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.client.cli.conftest import Person, Pock
from tests.server.harness import Device, digest_of

WHY = {"reason": "the owner's policy.toml: only at 22:00-06:30", "until": "2030-01-01T22:00:00Z"}


@pytest.fixture
def board(person: Person) -> Iterator[Device]:
    """A device whose agent knows policies, and keeps data; what it does, the tests do."""
    token = person.json("enroll-token", "--name", "board", "--pool", "kitchen")["token"]
    with httpx.Client(base_url=person.service.url, trust_env=False, timeout=60) as client:
        device = Device(client, Ed25519PrivateKey.generate())  # type: ignore[arg-type]
        facts = {"target": "host", "agent_version": "0.2.0", "features": ["policies", "local-data"]}
        assert device.enrol(token, facts).status_code == 201
        assert device.open_session().status_code == 200
        yield device


def rules(folder: Path, text: str) -> Path:
    path = folder / "night.toml"
    path.write_text(text)
    return path


def test_a_device_s_policy_is_set_shown_and_taken_away(person: Person, pock: Pock, board: Device) -> None:
    assert pock("devices", "policy", "board").out.splitlines() == [
        "pool kitchen: no policy",
        "device: no policy",
        "the device keeps them",
    ]
    said = pock(
        "devices", "policy", "board", "--set", rules(person.folder, 'charging = true\nhours = ["22:00-06:30"]\n')
    )
    assert said.status == 0, said.err
    assert said.out.splitlines()[1:] == [
        'device: charging = true, hours = ["22:00-06:30"]',
        "the device has not got them yet",
    ]
    board.call("POST", "/heartbeat", json={"state": "idle", "resting": WHY})
    assert "it rests: the owner's policy.toml: only at 22:00-06:30, until 20" in pock("devices", "policy", "board").out
    assert person.json("devices", "policy", "board", "--remove")["policy"] is None
    assert [one["name"] for one in person.json("devices")["items"]] == ["board"]


def test_a_pool_s_policy(person: Person, pock: Pock, board: Device) -> None:
    made = person.json("devices", "policy", "pool=kitchen", "--set", rules(person.folder, "max_minutes_per_day = 30\n"))
    assert made["pool"] == "kitchen" and made["policy"]["max_minutes_per_day"] == 30
    assert pock("devices", "policy", "pool=kitchen").out == "pool kitchen: max_minutes_per_day = 30.0\n"
    assert pock("devices", "policy", "board").out.startswith("pool kitchen: max_minutes_per_day = 30.0\n")
    none = pock("devices", "policy", "pool=kitchen", "--set", rules(person.folder, "max_minutes_per_day = 0\n"))
    assert none.out == "pool kitchen: max_minutes_per_day = 0.0\n", "a limit of 0 is a rule"
    assert pock("devices", "policy", "pool=kitchen", "--remove").status == 0
    wild = "pool=lab/left ..%2f?pool=kitchen#ü"
    made = person.json("devices", "policy", wild, "--set", rules(person.folder, "charging = true\n"))
    assert "pool=" + made["pool"] == wild and person.json("devices", "policy", wild)["policy"]["charging"]
    gone = pock("devices", "policy", "pool=kitchen")
    assert (gone.status, gone.out) == (1, "") and "Pool kitchen has no policy" in gone.err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("speed = 1\n", "speed"), ("charging = \n", "is no TOML"), ("#" * 70_000, "is longer than 65536 bytes")],
)
def test_bad_files(text: str, sentence: str, person: Person, pock: Pock, board: Device) -> None:
    said = pock("devices", "policy", "board", "--set", rules(person.folder, text))
    assert (said.status, said.out) == (1, "") and sentence in said.err


def test_runs_on_what_the_device_keeps_and_shows_that_it_is_paused(person: Person, pock: Pock, board: Device) -> None:
    person.built("net", "host")
    tensors = [{"name": "input", "dtype": "f32", "shape": [8, 4]}, {"name": "labels", "dtype": "i64", "shape": [8]}]
    told: dict[str, Any] = {"name": "pets", "digest": digest_of(b"pets"), "size": 200, "samples": 8, "tensors": tensors}
    assert board.call("PUT", "/datasets", json={"datasets": [told], "digest": "0" * 64}).status_code == 204
    words = ("run", "net", "--on", "board", "--data", "local:pets", "--eval-data", "local:pets", "--no-wait")
    (made,) = person.json(*words)["runs"]
    assert (made["dataset"]["name"], made["eval_dataset"]["name"]) == ("pets", "pets")
    work = board.take_work()
    assert work is not None and work["data"]["train"]["local"] == "pets"
    assert board.post("lease").status_code == 200
    board.post("events", first_seq=0, events=[{"event": "step", "phase": "train", "step": 1, "loss": 1.0, "ms": 2.0}])
    board.post("lease", paused=WHY)
    assert person.json("runs")["items"][0]["paused"]["reason"] == WHY["reason"]
    order = ("campaign", "create", "--build", "net", "--on", "board", "--steps", "2", "--no-wait")
    swept = person.json(*order, "--name", "sweep", "--data", "local:pets")["campaign"]["order"]
    assert (swept["dataset_name"], swept["dataset_id"], swept["eval_dataset_name"]) == ("pets", None, None)
    nobody = pock(*order, "--name", "none", "--data", "local:cats")
    assert nobody.status == 1 and "keeps data named 'cats'" in nobody.err
    refused = pock("run", "net", "--on", "board", "--data", "local:cats", "--no-wait")
    assert refused.status == 1 and "No data of device board is named 'cats'" in refused.err
