"""Builds: one per request content, one path through the states, a log and a stream."""

from typing import Any

import pytest
from sqlalchemy import delete

from pock_server.builds.lifecycle import BUILD_LIFECYCLE
from pock_server.builds.schemas import BuildState
from pock_server.builds.tables import BuildRecord
from pock_server.events import stream as streaming
from pock_server.http.problems import Problem
from pock_server.runner.claims import Broken, Journal, claim_next, finish, give_back, write_down
from pock_server.runner.sweeper import sweep_all
from pock_server.targets.tables import CompilerRecord
from tests.server.harness import Person, Server, assert_problem, sse


def test_same_request_is_one_build(person: Person) -> None:
    model = person.model()["id"]
    first = person.build(model_id=model)
    assert first.status_code == 202
    body = first.json()
    assert (body["state"], body["queue_position"], body["threads"], body["name"]) == ("queued", 1, 2, "net")
    again = person.build(model_id=model)
    assert again.status_code == 200 and again.json()["id"] == body["id"]
    same_text = person.build(model_id=model, recipe="batch: 2\n")
    assert same_text.json()["id"] == body["id"]
    copy = person.model(name="same bytes")["id"]
    assert person.build(model_id=copy).json()["id"] == body["id"]
    for change in ({"recipe": {"batch": 3}}, {"target": "raspberry-pi-4"}, {"threads": 1}):
        other = person.build(model_id=model, **change)
        assert other.status_code == 202 and other.json()["id"] != body["id"]


def test_newer_compiler_means_another_build(server: Server, person: Person) -> None:
    model = person.model()["id"]
    first = person.build(model_id=model).json()["id"]
    server.services.compiler.store("2", list(server.services.compiler.load().targets))
    assert person.build(model_id=model).json()["id"] != first


def test_failed_build_may_be_tried_again(server: Server, person: Person) -> None:
    model = person.model()["id"]
    first = person.build(model_id=model).json()["id"]
    server.finish_build(Broken(3002, "Operator Foo is not supported."))
    failed = person.get(f"/builds/{first}").json()
    assert failed["state"] == "failed"
    assert failed["failure"] == {"code": 3002, "detail": "Operator Foo is not supported."}
    assert person.build(model_id=model).json()["id"] != first


def test_bad_requests(person: Person) -> None:
    unknown = person.build(target="raspberry-pi-5")
    assert_problem(unknown, 422, 10003)
    assert "raspberry-pi-4" in unknown.json()["detail"]
    assert_problem(person.build(model_id="018f0000-0000-7000-8000-000000000000"), 404, 1005)
    for recipe in ("a: [", "- just a list", "1: 2", "x: .nan", "", "x: 2020-01-01"):
        assert_problem(person.build(recipe=recipe), 422, 3003)
    for body in ({"recipe": 3}, {"threads": 0}, {"target": ""}, {"model_id": "x"}):
        assert_problem(person.build(**body), 422, 1006)
    assert person.get("/builds").json()["items"] == []


def test_targets_are_those_that_a_worker_described(server: Server, person: Person) -> None:
    names = [target["name"] for target in person.get("/targets").json()["items"]]
    assert names == ["host", "raspberry-pi-4"]
    with server.services.database.write() as unit:
        unit.session.execute(delete(CompilerRecord))
    answer = person.get("/targets")
    assert_problem(answer, 503, 20001)
    assert answer.json()["retryable"] is True and answer.headers["retry-after"]


def test_queue_positions_and_filters(server: Server, person: Person) -> None:
    model = person.model()["id"]
    builds = [person.build(model_id=model, threads=n).json() for n in (1, 2, 3)]
    assert [build["queue_position"] for build in builds] == [1, 2, 3]
    server.finish_build()
    listed = {row["id"]: row["queue_position"] for row in person.get("/builds?state=queued").json()["items"]}
    assert listed == {builds[1]["id"]: 1, builds[2]["id"]: 2}
    assert len(person.get(f"/builds?model_id={model}").json()["items"]) == 3
    assert person.get(f"/builds?model_id={builds[0]['id']}").json()["items"] == []


def test_success_gives_artifact_and_blobs(server: Server, person: Person) -> None:
    build = server.built(person)
    assert build["state"] == "succeeded" and build["summary"]["arena_bytes"] == 1000
    artifact = person.get(f"/artifacts/{build['artifact_digest']}").json()
    assert artifact["build_id"] == build["id"] and artifact["entry_points"] == {"executable": "bin/model"}
    blob = person.get(f"/blobs/sha256/{build['artifact_digest']}")
    assert blob.status_code == 200 and len(blob.content) == artifact["size"]
    stranger = server.person(workspace="other")
    assert_problem(stranger.get(f"/artifacts/{build['artifact_digest']}"), 404, 1005)
    assert_problem(stranger.get(f"/builds/{build['id']}"), 404, 1005)
    assert_problem(stranger.post(f"/builds/{build['id']}/cancel"), 404, 1005)


def test_cancel(server: Server, person: Person) -> None:
    model = person.model()["id"]
    queued = person.build(model_id=model).json()["id"]
    for _ in range(2):
        assert person.post(f"/builds/{queued}/cancel").json()["state"] == "cancelled"
    running = person.build(model_id=model).json()["id"]
    claim = claim_next(server.services)
    assert claim is not None and claim.build_id == running
    person.post(f"/builds/{running}/cancel")
    assert not write_down(server.services, claim, Journal(lines=["too late"]))
    finish(server.services, claim, Broken(1, "too late"))
    assert person.get(f"/builds/{running}").json()["failure"] is None
    done = server.built(person, threads=7)
    assert_problem(person.post(f"/builds/{done['id']}/cancel"), 409, 1014)


def test_only_the_transitions_of_the_table_happen(server: Server, person: Person) -> None:
    person.build()
    with server.services.database.write() as unit:
        row = unit.session.query(BuildRecord).one()
        with pytest.raises(Problem):
            BUILD_LIFECYCLE.move(unit, row, BuildState.SUCCEEDED, server.clock.now())
        assert row.state == "queued"
    assert BUILD_LIFECYCLE.final == {"succeeded", "failed", "cancelled"}
    reached = {state for following in BUILD_LIFECYCLE.transitions.values() for state in following}
    assert reached == set(BuildState) == set(BUILD_LIFECYCLE.transitions)


def test_two_runners_never_share_a_build(server: Server, person: Person) -> None:
    build = person.build().json()["id"]
    first = claim_next(server.services)
    assert first is not None and claim_next(server.services) is None
    server.clock.advance(server.services.settings.build_lease_seconds + 1)
    sweep_all(server.services)
    second = claim_next(server.services)
    assert second is not None and (second.build_id, second.attempt) == (build, 2)
    assert not write_down(server.services, first, Journal())
    finish(server.services, first, Broken(1, "from the lost runner"))
    assert person.get(f"/builds/{build}").json()["state"] == "running"


def test_lost_build_fails_after_three_attempts(server: Server, person: Person) -> None:
    build = person.build().json()["id"]
    for _ in range(3):
        assert claim_next(server.services) is not None
        server.clock.advance(server.services.settings.build_lease_seconds + 1)
        sweep_all(server.services)
    assert claim_next(server.services) is None
    failed = person.get(f"/builds/{build}").json()
    assert failed["state"] == "failed" and failed["failure"]["code"] == 2001


def test_renewed_claim_is_not_swept_and_a_stopping_runner_costs_no_attempt(server: Server, person: Person) -> None:
    person.build()
    claim = claim_next(server.services)
    assert claim is not None
    server.clock.advance(server.services.settings.build_lease_seconds - 1)
    assert write_down(server.services, claim, Journal())
    server.clock.advance(server.services.settings.build_lease_seconds - 1)
    sweep_all(server.services)
    give_back(server.services, claim)
    again = claim_next(server.services)
    assert again is not None and again.attempt == 1


def test_log_progress_and_events(server: Server, person: Person) -> None:
    build = person.build().json()["id"]
    claim = claim_next(server.services)
    assert claim is not None
    stage = {"stage": "codegen", "done": 3, "total": 4, "fraction": 0.75}
    write_down(server.services, claim, Journal(lines=["one", "two"], stages={"codegen": stage}))
    assert person.get(f"/builds/{build}").json()["progress"] == stage
    write_down(server.services, claim, Journal(lines=["three"]))
    log = person.get(f"/builds/{build}/log")
    assert log.text == "one\ntwo\nthree\n" and log.headers["content-type"].startswith("text/plain")
    finish(server.services, claim, Broken(3001, "Not ONNX."))
    stream = person.get(f"/builds/{build}/events")
    assert stream.headers["content-type"].startswith("text/event-stream")
    events = sse(stream.text)
    assert [(number, kind) for number, kind, _ in events] == [
        (1, "state"), (2, "state"), (3, "log"), (4, "progress"), (5, "log"), (6, "state"),
    ]  # fmt: skip
    assert events[3][2] == stage and events[2][2] == {"text": "one\ntwo"}
    assert events[-1][2] == {"state": "failed", "failure": {"code": 3001, "detail": "Not ONNX."}}
    resumed = sse(person.get(f"/builds/{build}/events", headers={"Last-Event-ID": "4"}).text)
    assert resumed == events[4:]
    assert sse(person.get(f"/builds/{build}/events", headers={"Last-Event-ID": "6"}).text) == []
    assert_problem(person.get(f"/builds/{build}/events", headers={"Last-Event-ID": "x"}), 422, 1006)


@pytest.mark.in_process("the build ends at a moment of the service's own")
def test_a_stream_has_the_last_event_though_the_build_ends_as_it_is_looked_at(
    server: Server, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = person.build().json()["id"]
    is_over = streaming._is_over
    ended: list[object] = []

    def ends_now(*arguments: Any) -> bool:
        if not ended:
            ended.append(server.finish_build())
        return is_over(*arguments)

    monkeypatch.setattr(streaming, "_is_over", ends_now)
    events = sse(person.get(f"/builds/{build}/events").text)
    assert [data["state"] for _, kind, data in events if kind == "state"] == ["queued", "running", "succeeded"]
    assert_problem(server.person(workspace="other").get(f"/builds/{build}/events"), 404, 1005)
