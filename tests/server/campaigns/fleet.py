"""A small fleet for campaigns: boards that do one run when they are told to, and what a person sees."""

from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pock_server.campaigns.lifecycle import CAMPAIGN_LIFECYCLE
from pock_server.runner.duties import DUTIES, fulfil
from tests.server.harness import Device, Person, Server


def board(server: Server, person: Person, name: str, target: str = "host") -> Device:
    """A device of this name and target."""
    device = Device(server.client, Ed25519PrivateKey.generate())
    token = person.post("/enrollment-tokens", {"name": name}).json()["token"]
    assert device.enrol(token, {"target": target}).status_code == 201
    assert device.open_session().status_code == 200
    return device


def boards(server: Server, person: Person, count: int, target: str = "host") -> list[Device]:
    return [board(server, person, f"{target} {number}", target) for number in range(count)]


def start(server: Server, person: Person, **changes: Any) -> Any:
    """Ask for a campaign of one build on all devices."""
    if not {"build_ids", "model_id"} & set(changes):
        changes["build_ids"] = [server.built(person)["id"]]
    order = {"name": "sweep", "on": "*", "dataset_id": person.dataset()["id"], "steps": 3, **changes}
    return person.post("/campaigns", order)


def started(server: Server, person: Person, **changes: Any) -> str:
    made = start(server, person, **changes)
    assert made.status_code == 202, made.text
    return str(made.json()["id"])


def go_on(server: Server) -> None:
    fulfil(server.services, DUTIES)


def get(person: Person, campaign_id: str) -> dict[str, Any]:
    return dict(person.get(f"/campaigns/{campaign_id}").json())


def cells(person: Person, campaign_id: str) -> list[dict[str, Any]]:
    return list(person.get(f"/campaigns/{campaign_id}/cells").json()["items"])


def report(ms: float, loss: float = 0.5, **more: Any) -> dict[str, Any]:
    train = {"entry": "train", "loss": [1.0, loss], "step_ms": {"median": ms}, "peak_rss_bytes": 1000 * ms, **more}
    return {"train": train, "eval_after": {"accuracy": 0.9}}


def work(device: Device, ms: float = 2.0, code: int | None = None) -> bool:
    """Have the device do its next run, or fail it with this code; False if it has none."""
    if device.take_work() is None:
        return False
    assert device.post("lease").status_code == 200
    if code is None:
        done = device.post("result", state="succeeded", report=report(ms))
    else:
        done = device.post("result", state="failed", failure={"code": code, "detail": "Bad luck."})
    assert done.status_code == 200, done.text
    return True


def to_the_end(server: Server, person: Person, campaign_id: str, devices: list[Device]) -> dict[str, Any]:
    """The campaign after all devices did all they could."""
    for _ in range(50):
        go_on(server)
        if get(person, campaign_id)["state"] in CAMPAIGN_LIFECYCLE.final:
            break
        for device in devices:
            work(device)
        server.clock.advance(1)
    return get(person, campaign_id)
