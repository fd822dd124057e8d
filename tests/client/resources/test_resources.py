"""Each resource, against the real service."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pock_client import (
    BuildCancelled,
    BuildFailed,
    Client,
    KeyRefused,
    LogEvent,
    PockClientError,
    ProgressEvent,
    RunCancelled,
    RunFailed,
    ServiceError,
    StateEvent,
    StepsEvent,
    WaitTimeout,
)
from tests.client.conftest import Connect
from tests.client.service import Service
from tests.server.harness import Device, safetensors

_number = itertools.count()
DATA = safetensors({"input": ("F32", (8, 4)), "labels": ("I64", (8,))})


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file that no other test pushes; nobody reads it."""
    path = tmp_path / f"net{next(_number)}.onnx"
    path.write_bytes(b"a model " + path.name.encode())
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "digits.safetensors"
    path.write_bytes(DATA)
    return path


@pytest.fixture
def device(client: Client, service: Service):
    """A device of the fleet that answers when it is told to."""
    with httpx.Client(base_url=service.url, timeout=30, trust_env=False) as http:
        found = Device(http, Ed25519PrivateKey.generate())  # type: ignore[arg-type]
        token = client.enrolment_tokens.create(name=f"board{next(_number)}", pool="bench", labels={"room": "attic"})
        assert found.enrol(token.token).status_code == 201
        assert found.open_session().status_code == 200
        yield found


def test_models_are_asked_about(client: Client, model: Path) -> None:
    pushed = client.models.push(model)
    assert client.models.check(model.stem).supported
    found = client.models.estimate(pushed, {"behaviour": "well"}, threads=1)
    assert (found.predicted_peak_bytes, found.fits, found.step_ms) == (7, True, 0.5)
    with pytest.raises(ServiceError, match="no such key") as refused:
        client.models.estimate(pushed, {"behaviour": "refuse"})
    assert refused.value.failure_code == 3003


def test_who_one_is_and_what_can_be_built_for(client: Client) -> None:
    me = client.me()
    assert me.workspace.name == "default" and "builds:write" in me.scopes
    assert [target.name for target in client.targets.list()] == ["host"]


def test_a_model_is_pushed_found_and_deleted(client: Client, model: Path) -> None:
    pushed = client.models.push(model)
    assert (pushed.name, pushed.size) == (model.stem, model.stat().st_size)
    assert client.models.get(pushed.id) == client.models.find(pushed.name) == client.models.find(pushed.id) == pushed
    assert pushed.id in [one.id for one in client.models.list()]
    client.models.delete(pushed.id)
    with pytest.raises(ServiceError) as refused:
        client.models.get(pushed.id)
    assert (refused.value.status, refused.value.failure_code, refused.value.retryable) == (404, 1005, False)
    assert refused.value.request_id
    with pytest.raises(PockClientError, match=f"no model '{pushed.name}'"):
        client.models.find(pushed.name)


def test_a_list_has_all_pages(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("asynchronous", "synchronous"):
        monkeypatch.setattr(f"pock_client.{module}.transport._PAGE_ITEMS", 2)
    path = tmp_path / "many.onnx"
    path.write_bytes(b"many")
    pushed = [client.models.push(path, name=f"page {number}").id for number in range(5)]
    ids = [one.id for one in client.models.list()]
    assert ids[:5] == pushed[::-1] and len(ids) == len(set(ids))


def test_versions_tags_and_references(client: Client, tmp_path: Path) -> None:
    path, name = tmp_path / "net.onnx", f"pets {next(_number)}"
    versions = []
    for content in (b"one", b"two", b"two"):
        path.write_bytes(content + name.encode())
        versions.append(client.models.push(path, name=name))
    first, second, same = versions
    assert (first.version, second.version, same.id) == (1, 2, second.id)
    client.models.tag(first.id, "stable")
    means = {"": second, ":v1": first, ":stable": first, f"@sha256:{first.digest[:12]}": first}
    assert {suffix: client.models.find(name + suffix).id for suffix in means} == {
        suffix: model.id for suffix, model in means.items()
    }
    assert client.models.tag(second.id, "stable").tags == ["stable"]
    assert client.models.get(first.id).tags == []
    client.models.untag(second.id, "stable")
    with pytest.raises(PockClientError, match="no model"):
        client.models.find(f"{name}:stable")
    assert [one.id for one in client.models.list(name="pets ?*")][:2] == [second.id, first.id]


def test_a_recipe_is_kept_and_built_by(client: Client, model: Path, tmp_path: Path) -> None:
    path = tmp_path / f"light{next(_number)}.yaml"
    path.write_text("batch: 4  # few")
    kept = client.recipes.push(path)
    assert (kept.name, kept.version, kept.recipe, kept.text) == (path.stem, 1, {"batch": 4}, "batch: 4  # few")
    assert client.recipes.push("{batch: 8}", name=path.stem).version == 2
    found = client.recipes.find(f"{path.stem}:v1")
    assert found == kept and len(list(client.recipes.list(name=path.stem))) == 2
    build = client.builds.create(model=client.models.push(model), recipe=found, target="host", name="fine")
    assert build.recipe == {"batch": 4} and build.recipe_version is not None and build.model is not None
    assert (build.recipe_version.id, build.model.name) == (kept.id, model.stem)
    with pytest.raises(PockClientError, match="needs a name"):
        client.recipes.push("{batch: 8}")


def test_a_dataset_says_what_is_in_it(client: Client, data: Path) -> None:
    pushed = client.datasets.push(data, name="the digits")
    assert (pushed.name, pushed.samples, len(pushed.tensors)) == ("the digits", 8, 2)
    assert client.datasets.find("the digits").id == pushed.id


def test_a_build_is_followed_to_its_artifact(client: Client, model: Path, tmp_path: Path) -> None:
    pushed = client.models.push(model)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("batch: 2\n")
    build = client.builds.create(model=model.stem, recipe=recipe, target="host", name="fine", priority=1)
    assert (build.model_id, build.recipe, build.priority) == (pushed.id, {"batch": 2}, 1)
    seen: list[object] = []
    done = client.builds.wait(build.id, on_event=seen.append, timeout=60)
    assert done.state == "succeeded" and done.artifact_digest is not None
    states = [event.state for event in seen if isinstance(event, StateEvent)]
    assert states == ["queued", "running", "succeeded"]
    assert any(isinstance(event, ProgressEvent) and event.fraction == 0.25 for event in seen)
    assert any(isinstance(event, LogEvent) and "asked to fine" in event.text for event in seen)
    assert "asked to fine" in client.builds.log(build.id)
    again = client.builds.create(model=pushed, recipe="{batch: 2}", target="host", name="fine", priority=1)
    assert again.id == build.id
    artifact = client.artifacts.get(done.artifact_digest)
    assert artifact.digest == done.artifact_digest
    for given in (done, done.artifact_digest):
        path = client.artifacts.download(given, tmp_path / "out.pock")
        assert path.stat().st_size == artifact.size
        path.unlink()
    events = list(client.builds.events(build.id, after=1))
    assert [event.id for event in events] == list(range(2, 2 + len(events)))
    assert list(client.builds.events(build.id, after=events[-1].id)) == []


def test_a_build_that_fails_says_why(client: Client, model: Path) -> None:
    build = client.builds.create(model=client.models.push(model), recipe={}, target="host", name="fail")
    with pytest.raises(BuildFailed, match=r"Operator Foo is not supported\.") as failed:
        client.builds.wait(build.id, timeout=60)
    assert (failed.value.id, failed.value.code) == (build.id, 3002)
    with pytest.raises(PockClientError, match="no artifact"):
        client.artifacts.download(client.builds.get(build.id), "nowhere")


def test_a_build_that_goes_on_is_waited_for_so_long_and_cancelled(client: Client, model: Path) -> None:
    build = client.builds.create(model=client.models.push(model), recipe={}, target="host", name="hang")
    with pytest.raises(WaitTimeout, match=f"build {build.id} is not over"):
        client.builds.wait(build.id, timeout=0.3)
    client.builds.cancel(build.id)
    with pytest.raises(BuildCancelled):
        client.builds.wait(build.id, timeout=60)


def test_a_refused_request_says_which_part_is_wrong(client: Client, model: Path) -> None:
    pushed = client.models.push(model)
    with pytest.raises(ServiceError) as refused:
        client.builds.create(model=pushed, recipe={}, target="the moon")
    assert (refused.value.status, refused.value.failure_code) == (422, 10003)
    with pytest.raises(ServiceError, match="threads"):
        client.builds.create(model=pushed, recipe={}, target="host", threads=1000)


def test_a_run_is_followed_and_its_steps_are_read(client: Client, model: Path, data: Path, device: Device) -> None:
    build = client.builds.create(model=client.models.push(model), recipe={}, target="host", name="fine")
    client.builds.wait(build.id, timeout=60)
    name = client.devices.get(device.id).name
    client.datasets.push(data)
    asked = client.runs.create(build=build, device=name, dataset="digits", steps=3, save_weights=True, seed=7)
    assert (asked.device_id, asked.seed, asked.save_weights, asked.entry) == (device.id, 7, True, "train")
    assert device.take_work() is not None
    assert device.post("lease").status_code == 200
    steps = [{"event": "step", "step": number, "loss": 1.0 / number, "ms": 2.0} for number in (1, 2, 3)]
    assert device.post("events", first_seq=0, events=steps).status_code == 200
    assert device.post("result", state="succeeded", report={"train": {"steps": 3}}).status_code == 200
    seen: list[object] = []
    done = client.runs.wait(asked.id, on_event=seen.append, timeout=30)
    assert done.report is not None and done.report.train is not None and done.report.train.steps == 3
    told = [step.step for event in seen if isinstance(event, StepsEvent) for step in event.items]
    assert told == [1, 2, 3] == [step.step for step in client.runs.steps(asked.id)]
    assert [step.step for step in client.runs.steps(asked.id, after=2)] == [3]
    assert [one.id for one in client.runs.list(device_id=device.id)] == [asked.id]
    with pytest.raises(PockClientError, match="no weights"):
        client.runs.weights(asked.id, "nowhere")


def test_weights_come_back_from_the_device(
    client: Client, model: Path, data: Path, device: Device, tmp_path: Path
) -> None:
    build = client.builds.create(model=client.models.push(model), recipe={}, target="host", name="fine")
    client.builds.wait(build.id, timeout=60)
    held_out = client.datasets.push(data)
    asked = client.runs.create(
        build=build, device=device.id, dataset=held_out, eval_dataset=held_out, steps=1, save_weights=True
    )
    assert asked.eval_dataset_id == held_out.id
    assert device.take_work() is not None and device.post("lease").status_code == 200
    digest = client.datasets.get(held_out.id).digest
    sent = device.call("PUT", f"/blobs/sha256/{digest}", content=DATA)
    assert sent.status_code in (200, 201), sent.text
    assert device.post("result", state="succeeded", report={}, weights_digest=digest).status_code == 200
    assert client.runs.weights(asked.id, tmp_path / "weights").read_bytes() == DATA
    assert [line.split("Z  ")[1] for line in client.runs.log(asked.id).splitlines()] == [
        "queued",
        "leased",
        "running",
        "succeeded",
    ]


def test_runs_that_fail_or_are_cancelled_say_so(client: Client, model: Path, data: Path, device: Device) -> None:
    build = client.builds.create(model=client.models.push(model), recipe={}, target="host", name="fine")
    client.builds.wait(build.id, timeout=60)
    order: dict[str, Any] = {"build": build, "device": device.id, "dataset": client.datasets.push(data), "steps": 1}
    asked = client.runs.create(**order)
    assert device.take_work() is not None and device.post("lease").status_code == 200
    failure = {"code": 2003, "detail": "out of memory"}
    assert device.post("result", state="failed", report={}, failure=failure).status_code == 200
    with pytest.raises(RunFailed, match="out of memory") as failed:
        client.runs.wait(asked.id, timeout=30)
    assert failed.value.code == 2003
    other = client.runs.create(**order)
    client.runs.cancel(other.id)
    with pytest.raises(RunCancelled):
        client.runs.wait(other.id, timeout=30)
    client.runs.delete(other.id)


def test_a_run_that_is_tried_again_is_waited_for_until_its_last_try(
    client: Client, model: Path, data: Path, device: Device
) -> None:
    build = client.builds.create(model=client.models.push(model), recipe={}, target="host", name="slow fine")
    order: dict[str, Any] = {"build": build, "device": device.id, "dataset": client.datasets.push(data), "steps": 1}
    first = client.runs.create(**order, after_build=build, retries={"crashed": 1}, retry_delay=0)
    second = client.runs.create(**order, after_run=first.id)
    assert (first.state, second.state) == ("waiting", "waiting") and first.after is not None
    assert first.after.build_id == build.id and first.retries == {"crashed": 1}

    def act(state: str, **result: Any) -> None:
        while device.take_work() is None:
            time.sleep(0.1)
        assert device.post("lease").status_code == 200
        assert device.post("result", state=state, report={}, **result).status_code == 200

    act("failed", failure={"code": 2001, "detail": "it crashed"})
    act("succeeded")
    done = client.runs.wait(first.id, timeout=60)
    assert done.retry_of == first.id and done.state == "succeeded"
    assert client.runs.last_try(first.id).id == done.id
    assert [one.id for one in client.runs.list(device_id=device.id, retried="false")] == [done.id, second.id]
    act("succeeded")
    assert client.runs.wait(second.id, timeout=60).id == second.id


def test_devices_are_chosen_changed_and_revoked(client: Client, device: Device) -> None:
    name = client.devices.get(device.id).name
    assert [one.id for one in client.devices.list(on=f"name={name},room=attic")] == [device.id]
    assert client.devices.count(on=f"name={name},room!=attic") == 0 < client.devices.count()
    changed = client.devices.change(device.id, pool="shelf", labels={"room": None, "floor": "2"})
    assert (changed.name, changed.pool, changed.labels) == (name, "shelf", {"floor": "2"})
    with pytest.raises(ServiceError) as refused:
        list(client.devices.list(on="room>>"))
    assert refused.value.status == 422
    client.devices.revoke(device.id)
    assert client.devices.get(device.id).state == "revoked"
    with pytest.raises(PockClientError, match="no device"):
        client.devices.find(name)


def test_who_says_which_rules_they_saw_overwrites_no_others(client: Client) -> None:
    pool = f"pool {next(_number)}"
    seen = client.policies.set({"charging": True}, pool=pool, expected="none").version
    client.policies.set({"max_minutes_per_day": 5}, pool=pool, expected=seen)
    with pytest.raises(ServiceError) as caught:
        client.policies.set({"max_minutes_per_day": 9}, pool=pool, expected=seen)
    assert caught.value.failure_code == 1028
    with pytest.raises(ServiceError) as caught:
        client.policies.remove(pool=pool, expected=seen)
    assert caught.value.failure_code == 1028
    found = client.policies.get(pool=pool)
    assert found.policy is not None and found.policy.max_minutes_per_day == 5
    client.policies.remove(pool=pool, expected=found.version)


def test_members_keys_and_the_audit_log(client: Client, connect: Connect, service: Service) -> None:
    added = client.members.add(f"person {next(_number)}", "developer", email="a@b.example")
    made = client.keys.create("laptop", ["read"], ttl_days=1, member_id=added.id)
    other = connect(service.url, made.key)
    member = other.me().member
    assert member is not None and member.id == added.id
    changed = client.members.change(added.id, role="viewer", disabled=True)
    assert (changed.role, changed.email) == ("viewer", "a@b.example") and changed.disabled_at is not None
    with pytest.raises(KeyRefused) as refused:
        other.me()
    assert refused.value.failure_code == 1026
    assert made.id in [one.id for one in client.keys.list()]
    client.keys.revoke(made.id)
    actions = [entry.action for entry in client.audit.list(object_id=made.id)]
    assert len(actions) == 2 and actions[0] != actions[1]


def test_a_wrong_key_is_told_apart_and_never_shown(connect: Connect, service: Service) -> None:
    stranger = connect(service.url, "pk_nobody_0123456789")
    with pytest.raises(KeyRefused) as refused:
        stranger.me()
    assert refused.value.status == 401 and "0123456789" not in f"{refused.value!r} {refused.value}"
