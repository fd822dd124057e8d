"""What a workspace may have: each quota refuses with its own code, says limit and use, and holds in a race."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.server.conftest import ServerFactory
from tests.server.harness import Device, Person, Server, assert_problem, command, digest_of, safetensors
from tests.server.stores import variables

Add = Callable[[Server, Person, int], Any]
"""Asks for the n-th thing of its kind."""


def upload(_server: Server, person: Person, n: int) -> Any:
    return person.post("/uploads", {"digest": digest_of(b"%d" % n), "size": 10})


def model(_server: Server, person: Person, n: int) -> Any:
    return person.post("/models", {"name": f"{n}", "digest": person.upload(b"a model")})


def dataset(_server: Server, person: Person, n: int) -> Any:
    digest = person.upload(safetensors({"input": ("F32", (8, 4))}))
    return person.post("/datasets", {"name": f"{n}", "digest": digest})


def recipe(_server: Server, person: Person, n: int) -> Any:
    return person.post("/recipes", {"name": "r", "text": f"batch: {n + 1}"})


def build(_server: Server, person: Person, n: int) -> Any:
    model_id = (person.get("/models").json()["items"] or [person.model()])[0]["id"]
    return person.build(model_id=model_id, recipe={"batch": n + 1})


def token(_server: Server, person: Person, n: int) -> Any:
    return person.post("/enrollment-tokens", {})


def key(_server: Server, person: Person, n: int) -> Any:
    return person.post("/api-keys", {"name": f"{n}", "scopes": ["read"]})


def device(server: Server, person: Person, n: int) -> Any:
    made = person.post("/enrollment-tokens", {}).json()["token"]
    return Device(server.client, Ed25519PrivateKey.generate()).enrol(made)


def webhook(_server: Server, person: Person, n: int) -> Any:
    return person.post("/webhooks", {"url": f"https://hook.example/{n}", "events": ["run.failed"]})


KINDS: dict[str, tuple[Add, int, int]] = {
    "quota_open_uploads": (upload, 1058, 0),
    "quota_models": (model, 1051, 0),
    "quota_datasets": (dataset, 1052, 0),
    "quota_recipes": (recipe, 1059, 0),
    "quota_devices": (device, 1053, 0),
    "quota_open_builds": (build, 1054, 0),
    "quota_tokens": (token, 1057, 0),
    "quota_webhooks": (webhook, 1060, 0),
    "quota_keys": (key, 1056, 1),  # the person's own
}


@pytest.mark.parametrize("setting", KINDS)
def test_each_quota_refuses_what_is_one_too_many(start_server: ServerFactory, setting: str) -> None:
    add, code, used = KINDS[setting]
    server = start_server(**{setting: 2 + used})
    person = server.person()
    assert [add(server, person, n).status_code for n in range(2)][1] in (200, 201, 202)
    refused = add(server, person, 2)
    assert_problem(refused, 409, code)
    assert f"make {3 + used} " in refused.json()["detail"] and f"may have {2 + used}" in refused.json()["detail"]
    assert add(server, server.person(workspace="another"), 2).status_code in (200, 201, 202)


@pytest.mark.parametrize("setting", ["quota_open_uploads", "quota_tokens", "quota_keys", "quota_open_builds"])
def test_quotas_hold_when_many_add_at_once(start_server: ServerFactory, setting: str) -> None:
    add, code, used = KINDS[setting]
    server = start_server(**{setting: 3 + used})
    person = server.person()
    person.model()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: add(server, person, n), range(12)))
    assert sorted(answer.status_code for answer in answers)[3:] == [409] * 9
    assert {answer.json()["failure_code"] for answer in answers if answer.status_code == 409} == {code}


def test_announced_bytes_count(start_server: ServerFactory) -> None:
    """From the announcement, until the upload is given up; what a workspace has costs nothing again."""
    server = start_server(quota_bytes=1000)
    person = server.person()
    person.upload(b"x" * 400)
    announced = person.post("/uploads", {"digest": "0" * 64, "size": 600})
    assert announced.status_code == 201
    refused = person.post("/uploads", {"digest": "1" * 64, "size": 1})
    assert_problem(refused, 409, 1050)
    assert "1001 bytes" in refused.json()["detail"] and "may have 1000" in refused.json()["detail"]
    assert person.upload(b"x" * 400)
    assert server.person(workspace="another").post("/uploads", {"digest": "1" * 64, "size": 1000}).status_code == 201
    assert_problem(server.person(workspace="third").post("/uploads", {"digest": "1" * 64, "size": 1001}), 409, 1050)


def test_open_runs(start_server: ServerFactory) -> None:
    server = start_server(quota_open_runs=1)
    person = server.person()
    device = server.device(person)
    first = server.run(person, device)
    assert first.status_code == 202
    build = first.json()["build_id"]
    assert_problem(server.run(person, device, build), 409, 1055)
    person.post(f"/runs/{first.json()['id']}/cancel")
    assert server.run(person, device, build).status_code == 202


def test_a_workspace_has_limits_of_its_own(start_server: ServerFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    server = start_server(quota_tokens=2)
    person, other = server.person(), server.person(workspace="another")
    for name, value in {**variables(server.services.settings), "POCK_QUOTA_TOKENS": "2"}.items():
        monkeypatch.setenv(name, value)
    workspaces = partial(command, server, "workspaces")

    raised = workspaces("set-quota", "default", "tokens=3", "keys=7", "--json")
    assert raised.exit_code == 0, raised.stderr
    assert json.loads(raised.stdout)["tokens"] == {"used": 0, "limit": 3, "own": True}
    assert [token(server, person, n).status_code for n in range(4)] == [201, 201, 201, 409]
    assert "may have 3" in token(server, person, 4).json()["detail"]
    assert [token(server, other, n).status_code for n in range(3)] == [201, 201, 409]

    lowered = workspaces("set-quota", "default", "tokens=0")  # what is there stays
    assert "tokens         3 of 0\n" in lowered.stdout and "models         0 of 10000  (setting)" in lowered.stdout
    assert "may have 0" in token(server, person, 5).json()["detail"]

    assert workspaces("set-quota", "default", "tokens=default").exit_code == 0
    assert json.loads(workspaces("show", "default", "--json").stdout)["tokens"] == {"used": 3, "limit": 2, "own": False}
    assert {"name": "default", "quotas": {"keys": 7}}.items() <= json.loads(workspaces("list", "--json").stdout)[
        "items"
    ][0].items()

    entries = [entry for entry in person.get("/audit").json()["items"] if entry["action"] == "workspace.change"]
    assert [entry["changes"]["tokens"]["after"] for entry in entries] == [None, 0, 3]
    assert entries[-1]["changes"]["keys"] == {"before": None, "after": 7}
    assert entries[0]["actor"]["kind"] == "command_line"

    for wrong, said in (
        (("default", "tokens=-1"), "is not of the form"),
        (("default", "token=1"), "There is no quota 'token'; there are bytes"),
        (("default", f"bytes={'9' * 5000}"), "at most"),
        (("nobody", "tokens=1"), "there is no workspace nobody"),
    ):
        refused = workspaces("set-quota", *wrong)
        assert refused.exit_code == 2 and said in refused.stderr and "Traceback" not in refused.stderr
