"""Steps are stored once, lists are slim, and what is too old by the settings goes."""

from typing import Any

import pytest
from sqlalchemy import func, select, text

from pock_server.events.tables import EventRecord
from pock_server.migrations.runner import downgrade, upgrade
from pock_server.runner.retention import STEPS_KEPT, drop_old
from pock_server.runs.tables import RunStepRecord
from tests.server.conftest import ServerFactory
from tests.server.harness import Device, Person, Server, assert_problem, sse

DAY = 86_400.0


def finished_run(
    server: Server, person: Person, device: Device, steps: int = 5, build_id: str | None = None
) -> dict[str, Any]:
    run = server.run(person, device, build_id, steps=steps).json()
    assert device.take_work() is not None
    device.post("lease")
    lines = [{"event": "step", "step": n, "loss": float(n), "ms": 0.5} for n in range(steps)]
    for first in range(0, steps, 1000):
        assert device.post("events", first_seq=first, events=lines[first : first + 1000]).status_code == 200
    part = {"loss": [3.0, 2.0, 1.0], "step_ms": {"median": 0.5, "samples": [0.5] * 3}, "kernels": [{"name": "matmul"}]}
    report = {"train": part, "eval_after": {"accuracy": 0.5}, "health": {"before": {"celsius": 40}}}
    assert device.post("result", state="succeeded", report=report).status_code == 200
    return dict(run)


def test_steps_are_stored_once_and_streamed_as_before(server: Server, person: Person, device: Device) -> None:
    run = finished_run(server, person, device)
    with server.services.database.read() as session:
        told = session.scalars(select(EventRecord).where(EventRecord.kind == "steps")).one().data
    assert told == {"fence": 1, "first": 0, "last": 4}
    streamed = [data for _, kind, data in sse(person.get(f"/runs/{run['id']}/events").text) if kind == "steps"]
    assert streamed == [{"items": [{"step": n, "loss": float(n), "ms": 0.5} for n in range(5)]}]


def test_the_release_before_finds_the_steps_in_its_events(server: Server, person: Person, device: Device) -> None:
    run = finished_run(server, person, device)
    downgrade(server.services.database.engine, "0010")
    query = text("SELECT data FROM events WHERE kind = 'steps'").columns(EventRecord.data)
    with server.services.database.engine.connect() as connection:
        assert len(connection.execute(query).scalar_one()["items"]) == 5
    upgrade(server.services.database.engine)
    streamed = [data for _, kind, data in sse(person.get(f"/runs/{run['id']}/events").text) if kind == "steps"]
    assert len(streamed[0]["items"]) == 5


def test_lists_of_runs_have_no_samples(server: Server, person: Person, device: Device) -> None:
    run = finished_run(server, person, device)
    whole = person.get(f"/runs/{run['id']}").json()["report"]
    assert len(whole["train"]["loss"]) == 3 and whole["health"]
    slim = person.get("/runs").json()["items"][0]["report"]
    assert slim["train"]["loss"] == [3.0, 1.0] and slim["train"]["step_ms"]["median"] == 0.5
    assert slim["train"]["step_ms"]["samples"] == [] and slim["train"]["kernels"] is None and slim["health"] == {}
    assert slim["eval_after"]["accuracy"] == 0.5


def test_steps_of_old_runs_are_thinned(server: Server, person: Person, device: Device) -> None:
    run = finished_run(server, person, device, steps=2500)
    short = finished_run(server, person, device, steps=900, build_id=run["build_id"])
    server.clock.advance(89 * DAY)
    assert drop_old(server.services).steps == 0
    server.clock.advance(2 * DAY)
    assert drop_old(server.services).steps == 2500 - 834
    person = server.person()  # the first one's key has expired
    kept = [item["step"] for item in person.get(f"/runs/{run['id']}/steps").json()["items"]]
    assert kept == [*range(0, 2500, 3)] and len(kept) <= STEPS_KEPT
    assert len(person.get(f"/runs/{short['id']}/steps").json()["items"]) == 900
    assert drop_old(server.services).steps == 0


@pytest.fixture
def forgetful(start_server: ServerFactory) -> Server:
    return start_server(keep_artifacts_days=10, keep_logs_days=10, thin_steps_days=0)


def test_old_artifacts_go_and_the_same_request_builds_anew(forgetful: Server) -> None:
    person = forgetful.person()
    device = forgetful.device(person)
    model = person.model()["id"]
    build = forgetful.built(person, model_id=model)
    other = forgetful.built(person, model_id=model, recipe={"batch": 4})
    forgetful.clock.advance(9 * DAY)
    forgetful.run(person, device, other["id"])
    forgetful.clock.advance(2 * DAY)
    assert drop_old(forgetful.services).artifacts == 1
    assert_problem(person.get(f"/artifacts/{build['artifact_digest']}"), 404, 1005)
    assert person.get(f"/artifacts/{other['artifact_digest']}").status_code == 200
    assert person.get(f"/builds/{build['id']}").json()["state"] == "succeeded"
    assert_problem(forgetful.run(person, device, build["id"]), 409, 1014)
    again = person.build(model_id=model)
    assert again.status_code == 202 and again.json()["id"] != build["id"]
    assert drop_old(forgetful.services).artifacts == 0


def test_old_logs_go_and_results_stay(forgetful: Server) -> None:
    person = forgetful.person()
    device = forgetful.device(person)
    run = finished_run(forgetful, person, device)
    forgetful.clock.advance(11 * DAY)
    assert drop_old(forgetful.services).events == 1
    kinds = [kind for _, kind, _ in sse(person.get(f"/runs/{run['id']}/events").text)]
    assert kinds == ["state"] * 4
    assert len(person.get(f"/runs/{run['id']}/steps").json()["items"]) == 5
    with forgetful.services.database.read() as session:
        assert session.scalar(select(func.count()).select_from(RunStepRecord)) == 5
