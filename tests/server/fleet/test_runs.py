"""Runs: leases with fences, reports, cancellation, and everything that can get lost."""

import base64
import hashlib
import json
import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from pock_server.runner.sweeper import sweep_all
from pock_server.runs.lifecycle import RUN_LIFECYCLE
from pock_server.runs.schemas import RunState
from tests.server.harness import Device, Person, Server, assert_problem, digest_of, safetensors, sse

LEASE = 300


def steps(*numbers: int, **changes: Any) -> list[dict[str, Any]]:
    return [{"event": "step", "phase": "train", "step": n, "loss": 1.0 / n, "ms": 2.5, **changes} for n in numbers]


def start(server: Server, person: Person, device: Device, **changes: Any) -> str:
    """A run that the device has started."""
    run_id = server.run(person, device, **changes).json()["id"]
    assert device.take_work() is not None
    assert device.post("lease").status_code == 200
    return str(run_id)


def test_whole_life(server: Server, person: Person, device: Device) -> None:
    asked = server.run(person, device, save_weights=True, seed=4)
    assert asked.status_code == 202
    run = asked.json()
    assert (run["state"], run["queue_position"], run["attempt"], run["threads"]) == ("queued", 1, 0, 2)
    device.take_work()
    assert person.get(f"/runs/{run['id']}").json()["state"] == "leased"
    assert person.get(f"/devices/{device.id}").json()["state"] == "busy"
    lease = device.post("lease").json()
    assert lease["cancel"] is False
    assert timedelta(0) < datetime.fromisoformat(lease["expires_at"]) - device.now() <= timedelta(seconds=LEASE)
    assert person.get(f"/runs/{run['id']}").json()["state"] == "running"
    evaluation = {"event": "eval", "phase": "eval_before", "samples": 8, "loss": 2.0, "accuracy": 0.25}
    assert device.post("events", first_seq=0, events=[evaluation, *steps(1, 2)]).json() == {"next_seq": 3}
    assert device.post("events", first_seq=1, events=steps(1, 2, 3)).json() == {"next_seq": 4}
    assert person.get(f"/runs/{run['id']}").json()["progress"] == {"step": 3, "steps": 3, "loss": pytest.approx(1 / 3)}
    listed = person.get(f"/runs/{run['id']}/steps").json()["items"]
    assert [item["step"] for item in listed] == [1, 2, 3] and listed[0] == {"step": 1, "loss": 1.0, "ms": 2.5}
    assert [i["step"] for i in person.get(f"/runs/{run['id']}/steps?after=2").json()["items"]] == [3]
    weights = b"trained"
    put = device.call("PUT", f"/blobs/sha256/{digest_of(weights)}", content=weights)
    assert put.status_code == 201 and put.json() == {"digest": digest_of(weights), "size": 7}
    assert device.call("PUT", f"/blobs/sha256/{digest_of(weights)}", content=weights).status_code == 200
    report = {"train": {"steps": 3, "loss": [1.0, 0.5], "step_ms": {"median": 2.5}}, "health": {"celsius": 50}}
    result = {"state": "succeeded", "report": report, "weights_digest": digest_of(weights)}
    for _ in range(2):
        assert device.post("result", **result).json() == {"state": "succeeded"}
    done = person.get(f"/runs/{run['id']}").json()
    assert done["state"] == "succeeded" and done["weights_digest"] == digest_of(weights)
    assert done["report"]["train"]["step_ms"]["median"] == 2.5 and done["report"]["health"] == {"celsius": 50}
    assert person.get(f"/blobs/sha256/{digest_of(weights)}").content == weights
    assert person.get(f"/devices/{device.id}").json()["current_run_id"] is None
    assert device.take_work() is None


def test_envelope_is_signed_and_complete(server: Server, person: Person, device: Device) -> None:
    dataset, evaluation = person.dataset(), person.dataset(samples=4)
    build = server.built(person)
    options = {"build_id": build["id"], "dataset_id": dataset["id"], "eval_dataset_id": evaluation["id"]}
    run = server.run(person, device, deadline_seconds=60, **options).json()
    envelope = device.call("GET", "/work?wait=0").json()
    payload = base64.b64decode(envelope["payload"])
    public_key = Ed25519PublicKey.from_public_bytes(base64.b64decode(device.pinned["server_public_key"]))
    public_key.verify(base64.b64decode(envelope["signature"]), payload)
    work = json.loads(payload)
    assert set(work) == {
        "version", "job_id", "run_id", "device_id", "attempt", "fence", "counter", "issued_at", "expires_at",
        "artifact", "data", "run", "limits",
    }  # fmt: skip
    assert (work["run_id"], work["device_id"], work["attempt"]) == (run["id"], device.id, 1)
    assert set(work["artifact"]["members"]) == {"bin/model", "params.safetensors"}
    assert work["artifact"]["digest"] == build["artifact_digest"]
    assert work["data"] == {
        "train": {"sha256": dataset["digest"], "size": dataset["size"]},
        "eval": {"sha256": evaluation["digest"], "size": evaluation["size"]},
    }
    assert work["run"] == {"entry": "train", "steps": 3, "threads": 2, "seed": 0, "save_weights": False}
    assert work["limits"]["wall_seconds"] == 60 and work["limits"]["required_bytes"] == 5000
    assert work["limits"]["memory_bytes"] > 5000


def test_device_reads_the_blobs_of_its_work_and_no_others(server: Server, person: Person, device: Device) -> None:
    secret = person.upload(b"somebody else's")
    run_id = server.run(person, device).json()["id"]
    work = device.take_work()
    assert work is not None
    for blob in [*work["artifact"]["members"].values(), work["data"]["train"]]:
        found = device.call("GET", f"/blobs/sha256/{blob['sha256']}")
        assert found.status_code == 200
        assert (hashlib.sha256(found.content).hexdigest(), len(found.content)) == (blob["sha256"], blob["size"])
    part = device.call("GET", f"/blobs/sha256/{blob['sha256']}", headers={"Range": "bytes=2-3"})
    assert (part.status_code, part.content) == (206, found.content[2:4])
    assert_problem(device.call("GET", f"/blobs/sha256/{secret}"), 404, 1005)
    other = server.device(person)
    assert_problem(other.call("GET", f"/blobs/sha256/{blob['sha256']}"), 404, 1005)
    person.post(f"/runs/{run_id}/cancel")
    assert_problem(device.call("GET", f"/blobs/sha256/{blob['sha256']}"), 404, 1005)


def test_weights_need_a_running_run_that_saves(server: Server, person: Person, device: Device) -> None:
    path = f"/blobs/sha256/{digest_of(b'w')}"
    assert_problem(device.call("PUT", path, content=b"w"), 409, 1014)
    start(server, person, device)
    assert_problem(device.call("PUT", path, content=b"w"), 409, 1014)


def test_weights_with_another_digest_are_refused(server: Server, person: Person, device: Device) -> None:
    start(server, person, device, save_weights=True)
    assert_problem(device.call("PUT", f"/blobs/sha256/{'0' * 64}", content=b"w"), 460, 1011)
    assert_problem(device.post("result", state="succeeded", weights_digest="0" * 64), 404, 1005)
    assert device.post("result", state="succeeded").json() == {"state": "succeeded"}


def test_stolen_lease_cannot_write(server: Server, person: Person, device: Device) -> None:
    run_id = start(server, person, device)
    stale = dict(device.work)
    device.post("events", first_seq=0, events=steps(1, 2))
    device.open_session()
    device.take_work()
    assert device.work["run_id"] == run_id
    assert (device.work["fence"], device.work["attempt"]) == (stale["fence"] + 1, 2)
    assert device.work["counter"] > stale["counter"]
    for path, body in (
        ("lease", {}),
        ("events", {"first_seq": 2, "events": steps(3)}),
        ("result", {"state": "succeeded"}),
    ):
        assert_problem(device.post(path, **{**body, "fence": stale["fence"]}), 409, 1021)
    assert device.post("lease").status_code == 200
    assert person.get(f"/runs/{run_id}/steps").json()["items"] == []
    assert device.post("events", first_seq=0, events=steps(1)).json() == {"next_seq": 1}
    assert len(person.get(f"/runs/{run_id}/steps").json()["items"]) == 1


def test_silent_device_loses_its_run_and_gets_it_again(server: Server, person: Person, device: Device) -> None:
    run_id = start(server, person, device)
    fence = device.work["fence"]
    server.clock.advance(LEASE - 1)
    assert device.post("lease").status_code == 200
    server.clock.advance(LEASE - 1)
    sweep_all(server.services)
    assert person.get(f"/runs/{run_id}").json()["state"] == "running"
    server.clock.advance(2)
    sweep_all(server.services)
    lost = person.get(f"/runs/{run_id}").json()
    assert (lost["state"], lost["queue_position"]) == ("queued", 1)
    assert_problem(device.post("lease"), 409, 1021)
    assert_problem(device.post("result", state="succeeded"), 409, 1021)
    work = device.take_work()
    assert work is not None and (work["fence"], work["attempt"]) == (fence + 1, 2)


def test_run_fails_after_three_lost_leases(server: Server, person: Person, device: Device) -> None:
    run_id = server.run(person, device).json()["id"]
    for attempt in (1, 2, 3):
        work = device.take_work()
        assert work is not None and work["attempt"] == attempt
        server.clock.advance(LEASE + 1)
        sweep_all(server.services)
    assert device.take_work() is None
    failed = person.get(f"/runs/{run_id}").json()
    assert failed["state"] == "failed" and failed["failure"]["code"] == 2005


def test_device_that_keeps_asking_uses_up_its_attempts(server: Server, person: Person, device: Device) -> None:
    run_id = server.run(person, device).json()["id"]
    assert [bool(device.take_work()) for _ in range(4)] == [True, True, True, False]
    assert person.get(f"/runs/{run_id}").json()["failure"]["code"] == 2005


def test_nothing_succeeds_before_the_first_renewal(server: Server, person: Person, device: Device) -> None:
    server.run(person, device)
    device.take_work()
    assert_problem(device.post("result", state="succeeded"), 409, 1014)
    refused = {"code": 2004, "detail": "The signature is wrong."}
    assert device.post("result", state="failed", failure=refused).json() == {"state": "failed"}


def test_another_device_cannot_touch_the_run(server: Server, person: Person, device: Device) -> None:
    start(server, person, device)
    other = server.device(person)
    other.work = device.work
    for path, body in (("lease", {}), ("events", {"first_seq": 0, "events": []}), ("result", {"state": "failed"})):
        assert_problem(other.post(path, **body), 404, 1005)
    stranger = server.device(server.person(workspace="other"))
    stranger.work = device.work
    assert_problem(stranger.post("lease"), 404, 1005)


def test_cancelled_run_is_stopped(server: Server, person: Person, device: Device) -> None:
    run_id = start(server, person, device)
    beat = {"state": "busy", "run_id": run_id, "fence": device.work["fence"]}
    assert device.call("POST", "/heartbeat", json=beat).json()["cancel"] == []
    for _ in range(2):
        assert person.post(f"/runs/{run_id}/cancel").json()["state"] == "cancelled"
    assert device.call("POST", "/heartbeat", json=beat).json()["cancel"] == [run_id]
    assert device.post("lease").json()["cancel"] is True
    assert device.post("events", first_seq=0, events=steps(1)).status_code == 200
    stopped = {"code": 10005, "detail": "Cancelled."}
    assert device.post("result", state="failed", failure=stopped).json() == {"state": "cancelled"}
    assert person.get(f"/runs/{run_id}/steps").json()["items"] == []


def test_heartbeat_about_a_lost_run_says_stop(server: Server, person: Person, device: Device) -> None:
    run_id = start(server, person, device)
    stale = {"state": "busy", "run_id": run_id, "fence": device.work["fence"] - 1}
    assert device.call("POST", "/heartbeat", json=stale).json()["cancel"] == [run_id]
    unknown = "018f0000-0000-7000-8000-000000000000"
    beat = {"state": "busy", "run_id": unknown, "fence": 0}
    assert device.call("POST", "/heartbeat", json=beat).json()["cancel"] == [unknown]


def test_failure_is_kept(server: Server, person: Person, device: Device) -> None:
    run_id = start(server, person, device)
    device.post("result", state="failed", failure={"code": 2003, "detail": "Out of memory."})
    failed = person.get(f"/runs/{run_id}").json()
    assert failed["failure"] == {"code": 2003, "detail": "Out of memory."} and failed["finished_at"]
    assert_problem(person.post(f"/runs/{run_id}/cancel"), 409, 1014)
    assert device.post("lease").json()["cancel"] is True


def test_deadlines(server: Server, person: Person, device: Device) -> None:
    build = server.built(person)["id"]
    waiting = server.run(person, device, build, queue_deadline_seconds=10).json()["id"]
    server.clock.advance(11)
    sweep_all(server.services)
    assert person.get(f"/runs/{waiting}").json()["failure"]["code"] == 10001
    endless = start(server, person, device, build_id=build, deadline_seconds=60)
    server.clock.advance(60 + 121)
    assert device.post("lease").status_code == 200
    sweep_all(server.services)
    assert person.get(f"/runs/{endless}").json()["failure"]["code"] == 10001
    assert device.post("lease").json()["cancel"] is True


def test_the_deadline_of_the_queue_survives_a_lease(server: Server, person: Person, device: Device) -> None:
    run = server.run(person, device, queue_deadline_seconds=LEASE + 60).json()["id"]
    assert device.take_work() is not None
    server.clock.advance(LEASE + 1)
    sweep_all(server.services)
    assert person.get(f"/runs/{run}").json()["state"] == "queued"
    server.clock.advance(60)
    sweep_all(server.services)
    assert person.get(f"/runs/{run}").json()["failure"]["code"] == 10001


def test_the_deadline_of_the_queue_spares_a_run_that_was_taken_in_time(
    server: Server, person: Person, device: Device
) -> None:
    run = start(server, person, device, queue_deadline_seconds=10)
    server.clock.advance(11)
    sweep_all(server.services)
    assert person.get(f"/runs/{run}").json()["state"] == "running"


def test_no_run_waits_for_ever(server: Server, person: Person, device: Device) -> None:
    run = server.run(person, device).json()["id"]
    server.clock.advance(server.services.settings.queue_deadline_seconds + 1)
    sweep_all(server.services)
    assert person.get(f"/runs/{run}").json()["failure"]["code"] == 10001


def test_revoking_a_device_fails_its_runs(server: Server, person: Person, device: Device) -> None:
    build = server.built(person)["id"]
    runs = [start(server, person, device, build_id=build), server.run(person, device, build).json()["id"]]
    person.call("DELETE", f"/devices/{device.id}")
    assert {person.get(f"/runs/{run}").json()["failure"]["code"] for run in runs} == {2005}
    assert_problem(server.run(person, device, build), 409, 1014)


def test_run_of_a_quarantined_device_fails(server: Server, person: Person, device: Device) -> None:
    run_id = start(server, person, device)
    server.clock.advance(1)
    device.open_session(counter=1)
    server.clock.advance(LEASE + 1)
    sweep_all(server.services)
    assert person.get(f"/runs/{run_id}").json()["failure"]["code"] == 2005


def test_requests_that_cannot_run(server: Server, person: Person, device: Device) -> None:
    unknown = "018f0000-0000-7000-8000-000000000000"
    queued = person.build().json()["id"]
    assert_problem(server.run(person, device, queued), 409, 1014)
    server.finish_build()
    for change in ("build_id", "device_id", "dataset_id", "eval_dataset_id"):
        assert_problem(server.run(person, device, **{"build_id": queued, change: unknown}), 404, 1005)
    wrong: list[dict[str, Any]] = [{"steps": 0}, {"entry": "predict"}, {"threads": 0}, {"seed": -1}]
    for options in wrong:
        assert_problem(server.run(person, device, queued, **options), 422, 1006)
    assert person.get("/runs").json()["items"] == []


@pytest.mark.parametrize(
    "tensors,says",
    [
        ({"x": ("F32", (3, 4)), "labels": ("I64", (3,))}, "no tensor 'input'"),
        ({"input": ("F32", (3, 5)), "labels": ("I64", (3,))}, r"needs f32 with \[4\]"),
        ({"input": ("I64", (3, 4)), "labels": ("I64", (3,))}, "is i64"),
        ({"input": ("F32", (3, 4)), "labels": ("I64", (3,)), "sample_weight": ("F32", (3, 1))}, "'sample_weight'"),
    ],
)
def test_dataset_must_fit_the_model(server: Server, person: Person, device: Device, tensors: Any, says: str) -> None:
    dataset = person.post("/datasets", {"name": "d", "digest": person.upload(safetensors(tensors))}).json()
    answer = server.run(person, device, dataset_id=dataset["id"])
    assert_problem(answer, 422, 10004)
    assert re.search(says, answer.json()["detail"])


def test_queue_of_a_device_is_served_in_order(server: Server, person: Person, device: Device) -> None:
    build = server.built(person)["id"]
    runs = [server.run(person, device, build).json() for _ in range(3)]
    assert [run["queue_position"] for run in runs] == [1, 2, 3]
    for number, run in enumerate(runs, start=1):
        work = device.take_work()
        assert work is not None and work["run_id"] == run["id"] and work["counter"] == number
        device.post("lease")
        device.post("result", state="succeeded")
    for query, count in ((f"device_id={device.id}", 3), (f"build_id={build}", 3), ("state=queued", 0)):
        assert len(person.get(f"/runs?{query}").json()["items"]) == count
    stranger = server.person(workspace="other")
    assert stranger.get("/runs").json()["items"] == []
    for path in ("", "/steps", "/events"):
        assert_problem(stranger.get(f"/runs/{runs[0]['id']}{path}"), 404, 1005)
    assert_problem(stranger.post(f"/runs/{runs[0]['id']}/cancel"), 404, 1005)


def test_strange_events_do_no_harm(server: Server, person: Person, device: Device) -> None:
    run_id = start(server, person, device)
    events = [
        {}, {"event": "step"}, {"event": "step", "step": "1"}, {"event": "step", "step": -1}, {"event": "other"},
        *steps(1, loss="high", ms=True), *steps(1), *steps(2, phase="eval_after"), *steps(2**40),
    ]  # fmt: skip
    assert device.post("events", first_seq=0, events=events).json() == {"next_seq": len(events)}
    nan = json.dumps({"fence": device.work["fence"], "first_seq": 50, "events": steps(7, loss=float("nan"))})
    headers = {"Content-Type": "application/json"}
    assert device.call("POST", f"/runs/{run_id}/events", content=nan, headers=headers).json() == {"next_seq": 51}
    items = person.get(f"/runs/{run_id}/steps").json()["items"]
    assert items == [{"step": 1, "loss": None, "ms": None}, {"step": 7, "loss": None, "ms": 2.5}]


@pytest.mark.parametrize("report", [{"train": 3}, {"train": {"loss": "low"}}, {"health": []}])
def test_report_of_another_shape_is_refused(server: Server, person: Person, device: Device, report: Any) -> None:
    start(server, person, device)
    assert_problem(device.post("result", state="succeeded", report=report), 422, 1006)
    assert device.post("result", state="succeeded", report={"train": {"extra": 1}}).status_code == 200


def test_evaluations_during_training(server: Server, person: Person, device: Device) -> None:
    run_id = start(server, person, device)
    found = {"step": 2, "epoch": 1, "samples": 8, "loss": 0.1, "accuracy": 0.5, "perplexity": 1.1}
    stopped = {"event": "stopped", "phase": "train", "step": 3, "epoch": 2, "best_step": 2, "best_loss": 0.1}
    events = [*steps(1, 2), {"event": "eval", "phase": "train", "best": True, **found}, *steps(3), stopped]
    assert device.post("events", first_seq=0, events=events).json() == {"next_seq": 5}
    report = {"train": {"evaluations": [{**found, "best": True}], "best_step": 2, "stopped_early": True}}
    assert device.post("result", state="succeeded", report=report).status_code == 200
    told = sse(person.get(f"/runs/{run_id}/events").text)
    assert [data for _, kind, data in told if kind == "eval"] == [{"phase": "eval", **found}]
    stored = person.get(f"/runs/{run_id}").json()["report"]["train"]
    assert (stored["evaluations"], stored["stopped_early"]) == ([{**found, "best": True}], True)


def test_event_stream(server: Server, person: Person, device: Device) -> None:
    run_id = start(server, person, device)
    before, after = ({"event": "eval", "phase": phase, "loss": 0.1} for phase in ("eval_before", "eval_after"))
    device.post("events", first_seq=0, events=[before, *steps(1, 2), after])
    device.post("result", state="succeeded")
    events = sse(person.get(f"/runs/{run_id}/events").text)
    assert [kind for _, kind, _ in events] == ["state", "state", "state", "eval", "steps", "eval", "state"]
    assert [data["state"] for _, kind, data in events if kind == "state"] == [
        "queued",
        "leased",
        "running",
        "succeeded",
    ]
    assert [item["step"] for item in events[4][2]["items"]] == [1, 2]
    assert events[5][2] == {"phase": "eval_after", "samples": None, "loss": 0.1, "accuracy": None}
    resumed = sse(person.get(f"/runs/{run_id}/events", headers={"Last-Event-ID": "6"}).text)
    assert resumed == events[6:]


def test_lifecycle_table_is_closed() -> None:
    reached = {state for following in RUN_LIFECYCLE.transitions.values() for state in following}
    assert reached | {RunState.WAITING} == set(RunState) == set(RUN_LIFECYCLE.transitions)
    assert RUN_LIFECYCLE.final == {RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED}
