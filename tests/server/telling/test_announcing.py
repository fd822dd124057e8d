"""What happens becomes a delivery for each webhook that wants to know, together with what happened or not at all."""

import json
from typing import Any

import pytest
from sqlalchemy import select

from pock_server.clock import new_id
from pock_server.webhooks.service import WEBHOOKS_TOPIC, announce
from pock_server.webhooks.tables import DeliveryRecord, DeliveryState, Event, WebhookRecord
from tests.server.harness import Device, Person, Server


def workspace_of(person: Person) -> str:
    return str(person.get("/me").json()["workspace"]["id"])


def listen(server: Server, person: Person, *events: Event, enabled: bool = True) -> str:
    """A webhook for these events; its id."""
    now = server.clock.now()
    row = WebhookRecord(id=new_id(now), workspace_id=workspace_of(person), created_at=now, url="https://hook.example")
    row.events, row.wrapped_secret, row.enabled = [str(event) for event in events], "", enabled
    with server.services.database.write() as unit:
        unit.session.add(row)
    return row.id


def deliveries(server: Server) -> list[DeliveryRecord]:
    with server.services.database.read() as session:
        return list(session.scalars(select(DeliveryRecord).order_by(DeliveryRecord.id)))


def tell(server: Server, person: Person, event: Event, **data: Any) -> tuple[str, ...]:
    with server.services.database.write() as unit:
        announce(unit, workspace_of(person), event, data, server.clock.now())
        return unit.topics


def test_each_webhook_that_wants_to_know_gets_one_delivery(server: Server, person: Person) -> None:
    wanted = [
        listen(server, person, Event.RUN_FAILED),
        listen(server, person, Event.RUN_FAILED, Event.REGRESSION_FOUND),
    ]
    listen(server, person, Event.BENCHMARK_FINISHED)
    listen(server, person, Event.RUN_FAILED, enabled=False)
    listen(server, server.person(workspace="another"), Event.RUN_FAILED)
    assert WEBHOOKS_TOPIC in tell(server, person, Event.RUN_FAILED, run_id="r")
    found = deliveries(server)
    assert [row.webhook_id for row in found] == wanted and len({row.id for row in found}) == 2
    assert {(row.state, row.attempts, row.next_at) for row in found} == {(DeliveryState.PENDING, 0, server.clock.now())}
    assert json.loads(found[0].payload) == {
        "type": "run.failed",
        "timestamp": server.clock.now().isoformat(),
        "data": {"run_id": "r"},
    }


def test_nothing_is_told_of_what_was_undone(server: Server, person: Person) -> None:
    listen(server, person, Event.RUN_FAILED)
    with pytest.raises(RuntimeError), server.services.database.write() as unit:
        announce(unit, workspace_of(person), Event.RUN_FAILED, {}, server.clock.now())
        raise RuntimeError
    assert deliveries(server) == []


def test_a_run_that_fails_is_told(server: Server, person: Person, device: Device) -> None:
    listen(server, person, Event.RUN_FAILED)
    run = server.run(person, device).json()
    device.take_work()
    device.post("lease")
    device.post("result", state="failed", failure={"code": 2003, "detail": "Out of memory."})
    (told,) = deliveries(server)
    data = json.loads(told.payload)["data"]
    assert data == {
        "run_id": run["id"],
        "build_id": run["build_id"],
        "device_id": device.id,
        "device_name": "board",
        "target": "host",
        "entry": "train",
        "part_of": None,
        "failure": {"code": 2003, "detail": "Out of memory."},
    }
