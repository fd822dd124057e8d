"""Datasets that stay on devices: told of, found by name, run on, lost; none of their bytes come here."""

from typing import Any

import pytest

from pock_server.auth.service import find_or_add_workspace
from pock_server.quotas.service import set_quotas
from tests.server.harness import Device, Person, Server, assert_problem, digest_of

KNOWS = {"features": ["local-data"]}


@pytest.fixture
def device(server: Server, person: Person) -> Device:
    return server.device(person, KNOWS)


def listing(**changes: Any) -> dict[str, Any]:
    """What a device with one dataset tells."""
    tensors = [{"name": "input", "dtype": "f32", "shape": [8, 4]}, {"name": "labels", "dtype": "i64", "shape": [8]}]
    one = {"name": "pets", "digest": digest_of(b"pets"), "size": 200, "samples": 8, "tensors": tensors, **changes}
    return {"datasets": [one], "digest": digest_of(str(changes).encode())}


def tell(device: Device, told: dict[str, Any]) -> Any:
    return device.call("PUT", "/datasets", json=told)


def wants(device: Device, digest: str | None) -> bool:
    answer = device.call("POST", "/heartbeat", json={"state": "idle", "data": digest})
    return bool(answer.json().get("wants_data"))


def listed(person: Person, name: str = "pets") -> list[dict[str, Any]]:
    return list(person.get("/datasets", params={"name": name}).json()["items"])


def test_a_device_tells_what_it_keeps_where_that_is_not_known(person: Person, device: Device) -> None:
    told = listing()
    assert not wants(device, None) and not wants(device, "") and wants(device, told["digest"])
    assert tell(device, told).status_code == 204
    assert not wants(device, told["digest"]) and wants(device, "")
    (shown,) = listed(person)
    expected = {"name": "pets", "version": 1, "device_id": device.id, "gone_at": None, "samples": 8, "size": 200}
    assert expected.items() <= shown.items() and shown["tensors"] == told["datasets"][0]["tensors"]
    assert_problem(person.call("GET", f"/blobs/sha256/{shown['digest']}"), 404, 1005)
    tell(device, told)
    assert [row["id"] for row in listed(person)] == [shown["id"]]


def test_other_data_is_another_version_and_what_was_used_is_kept(
    server: Server, person: Person, device: Device
) -> None:
    tell(device, listing())
    tell(device, listing(digest=digest_of(b"more pets")))
    (second,) = listed(person)
    assert second["version"] == 2  # nothing was made of the first
    run = server.run(person, device, dataset_id=second["id"]).json()
    assert run["dataset"] == {"id": second["id"], "name": "pets", "version": 2}
    tell(device, {"datasets": [], "digest": ""})
    (gone,) = listed(person)
    assert gone["id"] == second["id"] and gone["gone_at"] is not None
    again = {"build_id": run["build_id"], "device_id": device.id, "steps": 3}
    assert_problem(person.post("/runs", {**again, "dataset_id": second["id"]}), 409, 1014)
    assert_problem(refused := person.post("/runs", {**again, "dataset_name": "pets"}), 409, 1014)
    assert "say there: pock-agent data add pets PATH" in refused.json()["detail"]


def test_a_run_by_name_means_each_device_s_own(server: Server, person: Person, device: Device) -> None:
    other = server.device(person, KNOWS)
    tell(device, listing())
    tell(other, listing(digest=digest_of(b"others"), size=300))
    build = server.built(person)["id"]
    for holder, content, size in ((device, b"pets", 200), (other, b"others", 300)):
        order = {"build_id": build, "device_id": holder.id, "dataset_name": "pets", "eval_dataset_name": "pets"}
        made = person.post("/runs", {**order, "steps": 3})
        assert made.status_code == 202, made.text
        work = holder.take_work()
        assert work is not None
        data = {"local": "pets", "sha256": digest_of(content), "size": size}
        assert work["data"] == {"train": data, "eval": data}
        assert holder.post("lease").status_code == 200
        assert holder.call("GET", f"/blobs/sha256/{data['sha256']}").status_code == 404
    one, another = listed(person)
    wrong = {"build_id": build, "device_id": device.id, "dataset_id": one["id"], "steps": 3}
    assert one["device_id"] == other.id and another["device_id"] == device.id
    assert_problem(refused := person.post("/runs", wrong), 409, 1014)
    assert "stays on another device" in refused.json()["detail"]


def test_names_alone_mean_what_the_service_has(server: Server, person: Person, device: Device) -> None:
    """And pushing a dataset of that name makes no version of what lies on a device."""
    tell(device, listing())
    assert person.get("/datasets", params={"ref": "pets"}).json()["items"] == []
    pushed = person.dataset(name="pets")
    assert (pushed["version"], pushed["device_id"]) == (2, None)
    (found,) = person.get("/datasets", params={"ref": "pets"}).json()["items"]
    assert found["id"] == pushed["id"]
    tell(device, listing(digest=pushed["digest"]))
    assert {(row["version"], row["device_id"]) for row in listed(person)} == {(2, None), (3, device.id)}


def test_shapes_and_agents_are_checked(server: Server, person: Person, device: Device) -> None:
    wrong = [{"name": "input", "dtype": "f32", "shape": [8, 5]}, {"name": "labels", "dtype": "i64", "shape": [8]}]
    tell(device, listing(tensors=wrong))
    order = {"build_id": server.built(person)["id"], "device_id": device.id, "dataset_name": "pets", "steps": 3}
    assert_problem(person.post("/runs", order), 422, 10004)
    assert_problem(person.post("/runs", {**order, "dataset_id": device.id}), 422, 1006)
    tell(device, listing())
    device.call("POST", "/heartbeat", json={"state": "idle", "facts": {"agent_version": "0.1.0"}})
    assert_problem(refused := person.post("/runs", order), 409, 1014)
    assert "cannot train on data that stays on it" in refused.json()["detail"]


def test_only_the_device_gives_it_up(server: Server, person: Person, device: Device) -> None:
    tell(device, listing())
    (row,) = listed(person)
    assert_problem(person.call("DELETE", f"/datasets/{row['id']}"), 409, 1014)
    run = server.run(person, device, dataset_id=row["id"]).json()
    tell(device, {"datasets": [], "digest": ""})
    person.post(f"/runs/{run['id']}/cancel")
    person.call("DELETE", f"/runs/{run['id']}")
    assert person.call("DELETE", f"/datasets/{row['id']}").status_code == 204


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../x"},
        {"name": ""},
        {"digest": "x"},
        {"size": 0},
        {"size": 2**53 + 1},
        {"samples": 9},
        {"tensors": []},
        {"tensors": [{"name": "x", "dtype": "complex", "shape": [8]}]},
        {"tensors": [{"name": "x\0", "dtype": "f32", "shape": [8]}]},
        {"tensors": [{"name": "x", "dtype": "f32", "shape": []}]},
        {"tensors": [{"name": "x", "dtype": "f32", "shape": [8] * 17}]},
        {"tensors": [{"name": "x", "dtype": "f32", "shape": [8, -1]}]},
        {"tensors": [{"name": "x", "dtype": "f32", "shape": [8]}] * 101},
    ],
)
def test_bad_listings(change: dict[str, Any], person: Person, device: Device) -> None:
    assert_problem(tell(device, listing(**change)), 422, 1006)
    assert listed(person) == []


def test_a_hundred_at_most_and_no_name_twice(person: Person, device: Device) -> None:
    (one,) = listing()["datasets"]
    many = [{**one, "name": f"d{number}"} for number in range(101)]
    assert_problem(tell(device, {"datasets": many, "digest": ""}), 422, 1006)
    assert tell(device, {"datasets": [one, one], "digest": ""}).status_code in (204, 422)
    assert len(listed(person)) <= 1


def test_they_count_as_datasets(server: Server, person: Person, device: Device) -> None:
    with server.services.database.write() as unit:
        home = find_or_add_workspace(unit, "default", server.clock.now())
        set_quotas(unit, home, {"datasets": 0}, server.clock.now())
    assert tell(device, listing()).status_code == 409
    assert listed(person) == []
