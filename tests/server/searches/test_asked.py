"""Searches for which parameters to train: asked for, done by workers, kept with what they found."""

from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from pock_server.runner.claims import Broken, claim_next, finish, give_back
from pock_server.runner.retention import drop_old
from pock_server.runner.sweeper import sweep_all
from pock_server.runner.workplace import load_task
from pock_server.searches.service import Searched
from tests.server.artifacts import FOUND, FOUND_FILES
from tests.server.conftest import ServerFactory
from tests.server.harness import Person, Server, assert_problem, sse

UNKNOWN = "018f0000-0000-7000-8000-000000000000"
RECIPE = FOUND_FILES["recipe.yaml"].decode()


def order(person: Person, **changes: Any) -> dict[str, Any]:
    """A search by somebody with a model and data."""
    return {"model_id": person.model()["id"], "dataset_id": person.dataset()["id"], "target": "host", **changes}


def searched(server: Server, text: str = RECIPE) -> None:
    """Do what a runner does with the oldest search, without a compiler."""
    claim, blobs = claim_next(server.services), server.services.blobs
    assert claim is not None
    content = {"loss": "cross_entropy", "update": [{"params": "fc.*"}]}
    finish(server.services, claim, Searched(text, content, blobs.put_bytes(b"{}"), blobs.put_bytes(b"<html>"), FOUND))


def test_a_search_is_asked_for_once(shared: Server) -> None:
    person = shared.person(workspace="once")
    asked = order(person, memory_bytes=1 << 20, step_ms=1.5, prefer="memory", recipe="batch: 2")
    made = person.post("/searches", asked)
    assert made.status_code == 202, made.text
    found = made.json()
    assert found["state"] == "queued" and found["queue_position"] == 1
    assert (found["name"], found["recipe"], found["threads"]) == ("net", {"batch": 2}, 2)
    assert (found["memory_bytes"], found["step_ms"], found["prefer"]) == (1 << 20, 1.5, "memory")
    assert found["model"]["id"] == asked["model_id"] and found["dataset"]["version"] == 1
    assert found["found"] is found["recipe_version"] is found["report_digest"] is found["eval_dataset"] is None
    again = person.post("/searches", asked)
    assert (again.status_code, again.json()["id"]) == (200, found["id"])
    assert person.post("/searches", {**asked, "seed": 1}).json()["id"] != found["id"]
    assert person.get(f"/searches/{found['id']}").json()["id"] == found["id"]


def test_a_search_is_no_build(shared: Server) -> None:
    person = shared.person(workspace="no build")
    found = person.post("/searches", order(person)).json()
    assert person.get("/builds").json()["items"] == []
    for answer in (
        person.get(f"/builds/{found['id']}"),
        person.post(f"/builds/{found['id']}/cancel"),
        person.call("DELETE", f"/builds/{found['id']}"),
        person.call("PUT", f"/builds/{found['id']}/tags/x"),
        person.get(f"/searches/{person.build().json()['id']}"),
    ):
        assert_problem(answer, 404, 1005)
    assert_problem(person.post("/benchmarks", {"build_id": found["id"], "device_id": UNKNOWN}), 404, 1005)


@pytest.mark.parametrize(
    ("changes", "status", "code", "says"),
    [
        ({"model_id": UNKNOWN}, 404, 1005, "no model"),
        ({"dataset_id": UNKNOWN}, 404, 1005, "no dataset"),
        ({"eval_dataset_id": UNKNOWN}, 404, 1005, "no dataset"),
        ({"recipe_id": UNKNOWN}, 404, 1005, "no recipe"),
        ({"target": "toaster"}, 422, 10003, "toaster"),
        ({"method": "measured"}, 422, 1006, "eval_dataset_id"),
        ({"confirm": 5}, 422, 1006, "eval_dataset_id"),
        ({"joules": 1.0}, 422, 1006, "watts"),
        ({"joules": -1.0, "watts": 5.0}, 422, 1006, "joules"),
        ({"watts": 1e300}, 422, 1006, "watts"),
        ({"lr_steps": 10**9}, 422, 1006, "lr_steps"),
        ({"ranks": [4, 0]}, 422, 1006, "ranks"),
        ({"ranks": [10**4]}, 422, 1006, "ranks"),
        ({"ranks": [1, 2, 3, 4, 5]}, 422, 1006, "ranks"),
        ({"ranks": [4], "method": "gradient"}, 422, 1006, "fisher"),
        ({"tries": True}, 422, 1006, "lr_steps"),
        ({"recompute": True}, 422, 1006, "memory_bytes"),
        ({"micro_batches": True}, 422, 1006, "memory_bytes"),
        ({"channels": "largest"}, 422, 1006, "channels"),
        ({"recipe": {}, "recipe_id": UNKNOWN}, 422, 1006, "not both"),
        ({"recipe": "a: *b"}, 422, None, "alias"),
        ({"minutes": 1000}, 422, 1006, "POCK_SEARCH_TIMEOUT_SECONDS"),
        ({"minutes": 1e9}, 422, 1006, "minutes"),
        ({"confirm": 10**9}, 422, 1006, "confirm"),
        ({"memory_bytes": 0}, 422, 1006, "memory_bytes"),
        ({"step_ms": "NaN"}, 422, 1006, "step_ms"),
        ({"seed": 2**40}, 422, 1006, "seed"),
        ({"threads": 10**6}, 422, 1006, "threads"),
        ({"name": "x\n"}, 422, 1006, "name"),
    ],
)
def test_what_could_never_be_searched_is_refused(
    shared: Server, changes: dict[str, Any], status: int, code: int | None, says: str
) -> None:
    person = shared.person(workspace="refused")
    answer = person.post("/searches", order(person, **changes))
    assert answer.status_code == status and says in answer.text, answer.text
    assert code is None or answer.json()["failure_code"] == code
    assert person.get("/searches").json()["items"] == []


def test_data_that_stay_on_a_device_are_refused(server: Server, person: Person) -> None:
    device = server.device(person, {"features": ["local-data"]})
    tensors = [{"name": "input", "dtype": "f32", "shape": [8, 4]}]
    told = {"datasets": [{"name": "own", "digest": "0" * 64, "size": 100, "samples": 8, "tensors": tensors}]}
    assert device.call("PUT", "/datasets", json={**told, "digest": "1" * 64}).is_success
    (local,) = person.get("/datasets", params={"name": "own"}).json()["items"]
    answer = person.post("/searches", order(person, dataset_id=local["id"]))
    assert_problem(answer, 409, 1014)
    assert "stays on a device" in answer.text


def test_samples_that_are_not_alike_are_refused(shared: Server) -> None:
    person = shared.person(workspace="refused")
    data = save({"input": np.zeros((8, 5), np.float32), "labels": np.zeros(8, np.int64)})
    held = person.post("/datasets", {"name": "held", "digest": person.upload(data)}).json()["id"]
    answer = person.post("/searches", order(person, eval_dataset_id=held))
    assert answer.status_code == 422 and "'input' is [4] a sample in digits, [5] in held" in answer.text


def test_what_is_found_is_kept_beside_the_model(server: Server, person: Person) -> None:
    asked = order(person, name="small")
    search = person.post("/searches", asked).json()
    searched(server)
    found = person.get(f"/searches/{search['id']}").json()
    assert found["state"] == "succeeded" and found["found"] == FOUND
    assert found["recipe_version"]["name"] == "small" and found["recipe_version"]["version"] == 1
    recipe = person.get(f"/recipes/{found['recipe_version']['id']}").json()
    assert recipe["text"] == RECIPE
    assert (recipe["model_id"], recipe["search_id"]) == (asked["model_id"], search["id"])
    mine = person.post("/recipes", {"name": "mine", "text": "batch: 2"}).json()
    assert mine["model_id"] is None
    (listed,) = person.get("/recipes", params={"model_id": asked["model_id"]}).json()["items"]
    assert listed["id"] == recipe["id"]
    assert person.get(f"/blobs/sha256/{found['report_digest']}").content == b"<html>"
    assert person.get(f"/blobs/sha256/{found['result_digest']}").content == b"{}"
    assert_problem(server.person(workspace="other").get(f"/blobs/sha256/{found['report_digest']}"), 404, 1005)
    built = person.post("/builds", {"model_id": asked["model_id"], "recipe_id": recipe["id"], "target": "host"})
    assert built.status_code == 202
    again = person.post("/searches", {**asked, "seed": 1}).json()
    claim = claim_next(server.services)
    assert claim is not None and claim.build_id == built.json()["id"]
    searched(server)
    same = person.get(f"/searches/{again['id']}").json()
    assert same["recipe_version"] == found["recipe_version"], "the same text is the same version"


def test_searches_of_a_model_and_state(server: Server, person: Person) -> None:
    asked = order(person)
    first = person.post("/searches", asked).json()["id"]
    searched(server)
    other = person.post("/searches", {**asked, "model_id": person.model(b"another", "other")["id"]}).json()["id"]

    def listed(**filters: str) -> list[str]:
        return [one["id"] for one in person.get("/searches", params=filters).json()["items"]]

    assert listed() == [other, first]
    assert listed(model_id=asked["model_id"]) == [first]
    assert listed(state="queued") == [other] and listed(state="failed") == []
    assert server.person(workspace="other").get("/searches").json()["items"] == []


def test_a_search_keeps_what_it_needs(server: Server, person: Person) -> None:
    held = person.dataset(name="held out")
    recipe = person.post("/recipes", {"name": "base", "text": "batch: 2"}).json()
    asked = order(person, eval_dataset_id=held["id"], recipe_id=recipe["id"])
    search = person.post("/searches", asked).json()["id"]
    places = (f"/models/{asked['model_id']}", f"/datasets/{asked['dataset_id']}", f"/datasets/{held['id']}")
    for path in (*places, f"/recipes/{asked['recipe_id']}", f"/searches/{search}"):
        assert_problem(person.call("DELETE", path), 409, 1014)
    searched(server)
    found = person.get(f"/searches/{search}").json()
    assert person.call("DELETE", f"/recipes/{found['recipe_version']['id']}").status_code == 204
    assert person.get(f"/searches/{search}").json()["recipe_version"] is None
    for path in (f"/searches/{search}", *places, f"/recipes/{asked['recipe_id']}"):
        assert person.call("DELETE", path).status_code == 204, path
    assert_problem(person.get(f"/searches/{search}/log"), 404, 1005)


def test_cancelled_and_asked_for_again(server: Server, person: Person) -> None:
    asked = order(person)
    search = person.post("/searches", asked).json()["id"]
    claim = claim_next(server.services)
    assert claim is not None
    key = load_task(server.services, claim).search
    cancelled = person.post(f"/searches/{search}/cancel").json()
    assert cancelled["state"] == "cancelled" == person.post(f"/searches/{search}/cancel").json()["state"]
    events = sse(person.get(f"/searches/{search}/events").text)
    assert [data["state"] for _, kind, data in events if kind == "state"] == ["queued", "running", "cancelled"]
    finish(server.services, claim, Broken(2001, "too late"))
    assert person.get(f"/searches/{search}").json()["failure"] is None
    again = person.post("/searches", asked).json()
    assert again["id"] != search and again["state"] == "queued"
    claim = claim_next(server.services)
    assert claim is not None and load_task(server.services, claim).search == key, "it goes on from the same folder"


def test_a_search_whose_runner_was_lost_waits_again(start_server: ServerFactory) -> None:
    server = start_server(max_attempts=2)
    person = server.person()
    search = person.post("/searches", order(person)).json()["id"]
    for state in ("queued", "failed"):
        assert claim_next(server.services) is not None
        server.clock.advance(1000)
        sweep_all(server.services)
        assert person.get(f"/searches/{search}").json()["state"] == state
    assert person.get(f"/searches/{search}").json()["failure"]["code"] == 2001


def test_a_task_is_told_what_to_search(server: Server, person: Person) -> None:
    held = person.dataset(samples=4, name="held out")
    changes = {"method": "measured", "minutes": 5, "confirm": 3, "seed": 7, "memory_bytes": 5000}
    person.post("/searches", order(person, eval_dataset_id=held["id"], **changes))
    claim = claim_next(server.services)
    assert claim is not None
    task = load_task(server.services, claim)
    assert task.search is not None and task.search.held_out and task.compiles_for == "host"
    forms = {"recompute": True, "micro_batches": None}
    options = {"memory": 5000, **forms, "step_ms": None, "method": "measured", "prefer": "accuracy"}
    assert task.search.options == {**options, "minutes": 5.0, "confirm": 3, "seed": 7}, (
        "what was not asked for is not told"
    )
    assert [item.path for item in task.inputs] == ["model/model.onnx", "data.safetensors", "eval.safetensors"]
    assert task.seconds == server.services.settings.search_timeout_seconds
    give_back(server.services, claim)
    assert person.get("/searches").json()["items"][0]["state"] == "queued"


def test_what_came_later_is_told_where_it_was_asked_for(server: Server, person: Person) -> None:
    later = {"channels": "gradient", "joules": 1.5, "watts": 6.0, "lr_steps": 20, "ranks": [4, 16], "tries": True}
    plain = order(person)
    for changes in ({}, later):
        shown = person.post("/searches", {**plain, **changes}).json()
        never: dict[str, Any] = {"joules": None, "watts": None, "lr_steps": 0, "ranks": [], "tries": False}
        expected = {"channels": "activation", **never, **changes}
        assert {name: shown[name] for name in later} == expected
        claim = claim_next(server.services)
        assert claim is not None
        search = load_task(server.services, claim).search
        assert search is not None and {name: search.options.get(name) for name in later} == {
            name: changes.get(name) for name in later
        }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({}, True), ({"recompute": True}, True), ({"recompute": False}, False), ({"memory_bytes": None}, None)],
)
def test_nodes_may_be_computed_twice_where_memory_is_limited(
    server: Server, person: Person, changes: dict[str, Any], expected: bool | None
) -> None:
    shown = person.post("/searches", {**order(person, memory_bytes=1 << 20), **changes}).json()
    assert shown["recompute"] is bool(expected)
    claim = claim_next(server.services)
    assert claim is not None
    search = load_task(server.services, claim).search
    assert search is not None and search.options.get("recompute") is expected


@pytest.mark.parametrize("asked", [None, True, False])
def test_steps_may_take_micro_batches_where_memory_is_limited(
    server: Server, person: Person, asked: bool | None
) -> None:
    changes = {} if asked is None else {"micro_batches": asked}
    shown = person.post("/searches", order(person, memory_bytes=1 << 20, **changes)).json()
    assert shown["micro_batches"] is asked
    claim = claim_next(server.services)
    assert claim is not None
    search = load_task(server.services, claim).search
    assert search is not None and search.options["micro_batches"] is asked


def test_old_data_are_dropped_and_searches_stay(start_server: ServerFactory) -> None:
    server = start_server(keep_artifacts_days=1)
    person = server.person()
    asked = order(person)
    search = person.post("/searches", asked).json()["id"]
    searched(server)
    server.clock.advance(5 * 86_400)
    drop_old(server.services)
    assert person.post("/searches", asked).json()["id"] == search


def test_quotas_hold_for_searches(start_server: ServerFactory) -> None:
    person = start_server(quota_open_builds=1).person()
    asked = order(person)
    assert person.post("/searches", asked).status_code == 202
    answer = person.post("/searches", {**asked, "seed": 1})
    assert answer.status_code == 409 and "builds queued or running" in answer.text
    assert len(person.get("/searches").json()["items"]) == 1
