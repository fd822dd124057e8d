"""Changes of what the fleet knows, for the audit log's test: each makes what is needed and gives the call."""

from collections.abc import Callable
from typing import Any

from pock_server.devices.tables import DeviceRecord
from pock_server.tuning.tables import DistrustRecord
from tests.server.harness import Person, Server


def cancel_tuning(server: Server, person: Person) -> Callable[[], Any]:
    tuning = server.tuning(person)
    return lambda: person.post(f"/tuning/jobs/{tuning['id']}/cancel")


def import_tuning(server: Server, person: Person) -> Callable[[], Any]:
    inputs = {"family": "matmul", "device": "x86_64 skylake", "sizes": "1,2,3"}
    return lambda: person.post("/tuning", {"target": "host", "entries": [{"inputs": inputs, "choice": {"tile": 2}}]})


def drop_measurements(server: Server, person: Person) -> Callable[[], Any]:
    device = server.device(person)
    with server.services.database.write() as unit:
        home = unit.session.get_one(DeviceRecord, device.id).workspace_id
        row = {"id": device.id, "workspace_id": home, "created_at": server.clock.now()}
        unit.session.add(DistrustRecord(**row, reason="it lied", run_id=device.id))
    return lambda: person.call("DELETE", f"/tuning/devices/{device.id}")


TUNING: dict[tuple[str, str], tuple[Callable[[Server, Person], Callable[[], Any]], str]] = {
    ("POST", "/tuning"): (import_tuning, "tuning.import"),
    ("POST", "/tuning/jobs/{tuning_id}/cancel"): (cancel_tuning, "tuning.cancel"),
    ("DELETE", "/tuning/devices/{device_id}"): (drop_measurements, "tuning.drop"),
}
"""{method and path: (what is needed, what the log calls it)}."""
