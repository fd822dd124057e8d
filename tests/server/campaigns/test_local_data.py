"""Campaigns on data that stays on the devices: who has none is skipped with a reason."""

from typing import Any

import pytest

from tests.server.campaigns.fleet import boards, cells, go_on, start, started, to_the_end
from tests.server.fleet.test_local_data import KNOWS, listing, tell
from tests.server.harness import Device, Person, Server, assert_problem, digest_of

PETS = {"dataset_id": None, "dataset_name": "pets"}


def keep(device: Device, **changes: Any) -> None:
    """Have the device tell of one dataset, `pets` unless said otherwise."""
    facts = {"target": "host", "agent_version": "0.2.0", **KNOWS}
    assert device.call("POST", "/heartbeat", json={"state": "idle", "facts": facts}).status_code == 200
    assert tell(device, listing(**changes)).status_code == 204


def test_each_device_trains_on_its_own(server: Server, person: Person) -> None:
    one, two = boards(server, person, 2)
    for device, content in ((one, b"mine"), (two, b"yours")):
        keep(device, digest=digest_of(content))
    started(server, person, **PETS, eval_dataset_name="pets")
    go_on(server)
    for device, content in ((one, b"mine"), (two, b"yours")):
        work = device.take_work()
        assert work is not None
        data = {"local": "pets", "sha256": digest_of(content), "size": 200}
        assert work["data"] == {"train": data, "eval": data}


def test_who_has_no_such_data_goes_last_and_is_skipped_with_a_reason(server: Server, person: Person) -> None:
    without, having = boards(server, person, 2)
    keep(having)
    campaign_id = started(server, person, **PETS, canary={"devices": 1})
    assert [(cell["device_name"], cell["canary"]) for cell in cells(person, campaign_id)] == [
        ("host 1", True),
        ("host 0", False),
    ]
    done = to_the_end(server, person, campaign_id, [without, having])
    assert done["state"] == "succeeded" and (done["cells"]["succeeded"], done["cells"]["skipped"]) == (1, 1)
    _, skipped = cells(person, campaign_id)
    assert skipped["failure"]["code"] == 1014 and skipped["run_id"] is None
    reason = "No data of device host 0 is named 'pets'; say there: pock-agent data add pets"
    assert reason in skipped["failure"]["detail"]


def test_data_that_went_away_or_does_not_fit_is_a_reason_too(server: Server, person: Person) -> None:
    lost, wrong, fine = boards(server, person, 3)
    keep(lost)
    shapes = [{"name": "input", "dtype": "f32", "shape": [8, 5]}, {"name": "labels", "dtype": "i64", "shape": [8]}]
    keep(wrong, tensors=shapes)
    keep(fine)
    campaign_id = started(server, person, **PETS)
    assert tell(lost, {"datasets": [], "digest": ""}).status_code == 204
    done = to_the_end(server, person, campaign_id, [lost, wrong, fine])
    assert done["cells"]["skipped"] == 2 and done["state"] == "succeeded"
    reasons = {cell["device_name"]: cell["failure"] for cell in cells(person, campaign_id)}
    assert reasons["host 2"] is None and reasons["host 0"]["code"] == 1014 and reasons["host 1"]["code"] == 10004


def test_data_of_one_device_by_its_id_is_skipped_on_others(server: Server, person: Person) -> None:
    having, other = boards(server, person, 2)
    keep(having)
    (row,) = person.get("/datasets", params={"name": "pets"}).json()["items"]
    campaign_id = started(server, person, dataset_id=row["id"])
    to_the_end(server, person, campaign_id, [having, other])
    (skipped,) = (cell for cell in cells(person, campaign_id) if cell["state"] == "skipped")
    assert skipped["device_name"] == "host 1" and "stays on another device" in skipped["failure"]["detail"]


def test_where_no_device_has_any_it_is_refused(server: Server, person: Person) -> None:
    one, two = boards(server, person, 2)
    order = {**PETS, "build_ids": [server.built(person)["id"]]}
    assert_problem(refused := start(server, person, **order), 409, 1014)
    assert "No device that '*' chooses keeps data named 'pets'" in refused.json()["detail"]
    keep(one)
    keep(two, name="pets-eval")
    assert_problem(refused := start(server, person, **order, eval_dataset_name="pets-eval"), 409, 1014)
    assert "keeps data named 'pets' and 'pets-eval'" in refused.json()["detail"]
    stranger = server.person(workspace="others")
    keep(server.device(stranger, {"target": "host", **KNOWS}), name="foreign")
    assert_problem(start(server, person, **{**order, "dataset_name": "foreign"}), 409, 1014)
    assert person.get("/campaigns").json()["items"] == [] and person.get("/runs").json()["items"] == []


@pytest.mark.parametrize(
    "change",
    [
        {"dataset_name": "pets"},
        {"dataset_id": None},
        {**PETS, "dataset_name": ""},
        {**PETS, "dataset_name": "x\0"},
        {**PETS, "dataset_name": "x" * 201},
        {"eval_dataset_id": "018f0000-0000-7000-8000-000000000000", "eval_dataset_name": "pets"},
    ],
    ids=str,
)
def test_no_other_orders(server: Server, person: Person, change: dict[str, Any]) -> None:
    boards(server, person, 1)
    assert_problem(start(server, person, **change), 422, 1006)
