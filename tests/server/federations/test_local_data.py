"""Federations of devices that keep their data."""

from pathlib import Path

import pytest

from tests.server.federations.federating import FACTS, Fleet, trainable
from tests.server.fleet.test_local_data import listing, tell
from tests.server.harness import Person, Server

pytestmark = pytest.mark.in_process("what the leading process does is done here, step by step")


def test_who_has_data_of_the_name_takes_part_on_them(
    server: Server, person: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pock_server.runner.background.DUTIES", ())
    facts = {**FACTS, "features": [*FACTS["features"], "local-data"]}
    fleet = Fleet(server, person, tmp_path, {name: server.device(person, facts) for name in ("a", "b", "c")})
    fleet.rename()
    for name, samples in (("a", 8), ("b", 24)):
        tensors = [
            {"name": "input", "dtype": "f32", "shape": [samples, 4]},
            {"name": "labels", "dtype": "i64", "shape": [samples]},
        ]
        told = listing(samples=samples, tensors=tensors)
        assert tell(fleet.devices[name], told).status_code == 204
    order = {"name": "pets", "build_id": trainable(server, person), "on": "*", "rounds": 1, "devices_per_round": 3}
    made = person.post("/federations", {**order, "minimum": 2, "epochs": 1, "dataset": "pets"}).json()
    fleet.here()
    fleet.advance()
    moved = {"a": 1.0, "b": 3.0}
    for name, move in moved.items():
        fleet.train(name, move)
    assert fleet.devices["c"].take_work() is None
    fleet.advance()
    done = person.get(f"/federations/{made['id']}").json()
    assert done["state"] == "succeeded", done
    assert fleet.head(done) == [value + 2.5 for value in (1.0, 2.0, 3.0, 4.0)]  # 8 of 32 samples moved by 1, 24 by 3
