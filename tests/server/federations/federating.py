"""Devices of a federation: a build that can be trained, and devices that send what a test wants of them."""

import hashlib
import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pock_server.federations.aggregating import aggregate
from pock_server.federations.repository import open_federations
from pock_server.federations.rounds import advance
from pock_server.http.problems import Problem
from pock_server.runner.claims import Built
from pock_server.weights.making import make_delta
from pock_server.weights.restoring import restore
from pock_server.weights.tensors import Tensor, header_bytes
from tests.server.artifacts import artifact_files
from tests.server.harness import Device, Person, Server, digest_of, make_artifact

NAMES = ("a", "b", "c", "d")
TRAINED = ("head",)
BASE: Mapping[str, Sequence[float]] = {"frozen": [5.0, 6.0], "head": [1.0, 2.0, 3.0, 4.0]}
FACTS = {"target": "host", "agent_version": "0.2.0", "features": ["weights-delta", "initial-weights"]}


def weights(tensors: Mapping[str, Sequence[float]]) -> bytes:
    """A safetensors file of f32 vectors."""
    forms = {name: Tensor("F32", (len(values),)) for name, values in tensors.items()}
    return header_bytes(forms, {}) + b"".join(struct.pack(f"<{len(v)}f", *v) for v in tensors.values())


BASE_DIGEST = digest_of(weights(BASE))


def trainable(server: Server, person: Person) -> str:
    """A succeeded build that trains `head`; its id."""
    build_id = str(person.build(model_id=person.model(b"a trainable model")["id"]).json()["id"])
    built = make_artifact(server.services, build_id)
    files = artifact_files(build_id, parameters=weights(BASE))
    manifest = json.loads(files["manifest.json"])
    manifest["tensors"] = [
        {
            "name": name, "dtype": "f32", "shape": [len(values)], "nbytes": 4 * len(values), "role": "param",
            "trained": "all" if name in TRAINED else "frozen", "channels": None,
        }
        for name, values in BASE.items()
    ]  # fmt: skip
    members = dict(built.members)
    for name, data in (
        ("manifest.json", json.dumps(manifest).encode()),
        ("params.safetensors", files["params.safetensors"]),
    ):
        digest, size = server.services.blobs.put_bytes(data)
        members[name] = {"sha256": digest, "size": size}
    server.finish_build(_with(built, members))
    return build_id


def federation(server: Server, person: Person) -> Callable[[], Any]:
    """What asks for a small federation."""
    order = {"name": "many", "build_id": trainable(server, person), "on": "*", "rounds": 1, "devices_per_round": 1}
    return lambda: person.post("/federations", {**order, "minimum": 1, "steps": 1, "dataset": "digits"})


def _with(built: Built, members: dict[str, Any]) -> Built:
    return replace(built, members=members)


@dataclass
class Fleet:
    """Devices that train by adding to `head`; `moves` says how much each adds, by its name."""

    server: Server
    person: Person
    folder: Path
    devices: dict[str, Device]

    def rename(self) -> None:
        """Each device has its name at the service."""
        for name, device in self.devices.items():
            answer = self.person.call("PATCH", f"/devices/{device.id}", json={"name": name})
            assert answer.status_code == 200, answer.text

    def here(self) -> None:
        """All devices are seen now."""
        for device in self.devices.values():
            assert device.call("POST", "/heartbeat", json={"state": "idle"}).status_code == 200
        self.server.services.fleet.write_down()

    def data(self, samples: Mapping[str, int] | None = None) -> None:
        """Each device has a dataset of its own, digits-NAME."""
        for number, name in enumerate(self.devices):
            self.person.dataset(8 + number if samples is None else samples[name], f"digits-{name}")

    def advance(self) -> None:
        """What the leading process does once for each federation."""
        with self.server.services.database.read() as session:
            found = open_federations(session, self.server.clock.now())
        for workspace_id, row_id in found:
            try:
                advance(self.server.services, workspace_id, row_id, aggregate)
            except Problem as problem:
                assert "by now" in problem.detail

    def current(self, work: Mapping[str, Any], device: Device) -> list[float]:
        """The weights with which a run begins, as its device sees them."""
        given = work["data"].get("weights")
        if given is None:
            return list(BASE["head"])
        answer = device.call("GET", f"/blobs/sha256/{given['sha256']}")
        assert answer.status_code == 200
        (self.folder / "base").write_bytes(weights(BASE))
        (self.folder / "given").write_bytes(answer.content)
        out = self.folder / "out"
        restore(self.folder / "base", BASE_DIGEST, self.folder / "given", out, everything=True, limit=1 << 20)
        return list(struct.unpack("<4f", out.read_bytes()[-16:]))

    def train(self, name: str, move: float | bytes | None = 0.5) -> str | None:
        """Do the device's next run: add `move` to each number of `head`, send these bytes instead, or fail; its id."""
        device = self.devices[name]
        work = device.take_work()
        if work is None:
            return None
        assert device.post("lease").status_code == 200
        if move is None:
            failure = {"code": 2003, "detail": "Out of memory."}
            assert device.post("result", state="failed", failure=failure).status_code == 200
            return str(work["run_id"])
        sent = move if isinstance(move, bytes) else self.delta([x + move for x in self.current(work, device)])
        assert device.call("PUT", f"/blobs/sha256/{digest_of(sent)}", content=sent).status_code in (200, 201)
        report = {"train": {"steps": work["run"]["steps"], "loss": [1.0, 0.5]}}
        said = {"state": "succeeded", "report": report, "weights_digest": digest_of(sent), "weights_form": "delta"}
        assert device.post("result", **said).status_code == 200
        return str(work["run_id"])

    def delta(self, head: Sequence[float]) -> bytes:
        (self.folder / "base").write_bytes(weights(BASE))
        (self.folder / "new").write_bytes(weights({"head": head}))
        make_delta(self.folder / "base", self.folder / "new", BASE_DIGEST, self.folder / "delta")
        return (self.folder / "delta").read_bytes()

    def head(self, federation: Mapping[str, Any]) -> list[float]:
        """The numbers of the newest weights."""
        answer = self.person.get(f"/blobs/sha256/{federation['weights_digest']}")
        assert answer.status_code == 200
        assert hashlib.sha256(answer.content).hexdigest() == federation["weights_digest"]
        (self.folder / "base").write_bytes(weights(BASE))
        (self.folder / "made").write_bytes(answer.content)
        out = self.folder / "whole"
        restore(self.folder / "base", BASE_DIGEST, self.folder / "made", out, everything=True, limit=1 << 20)
        found = struct.unpack("<4f", out.read_bytes()[-16:])
        assert all(map(math.isfinite, found))
        return list(found)


def create(fleet: Fleet, **changes: Any) -> Any:
    """Ask for a federation of two rounds of all devices, unless `changes` say otherwise."""
    build_id = changes.pop("build_id", None) or trainable(fleet.server, fleet.person)
    body = {"name": "digits", "build_id": build_id, "on": "*", "rounds": 2, "devices_per_round": 4, "minimum": 2}
    body |= {"steps": 5, "dataset": "digits-{device}", **changes}
    return fleet.person.post("/federations", {name: value for name, value in body.items() if value is not None})


def created(fleet: Fleet, **changes: Any) -> str:
    """The id of a new one."""
    answer = create(fleet, **changes)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def shown(fleet: Fleet, federation_id: str) -> Any:
    """How it stands."""
    return fleet.person.get(f"/federations/{federation_id}").json()
