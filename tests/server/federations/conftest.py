"""Four devices that take part in federations, whose rounds go on where the test says so."""

from pathlib import Path

import pytest

from pock_server.aggregation.__main__ import aggregate as aggregate_here
from pock_server.federations import aggregating
from tests.server.federations.federating import FACTS, NAMES, Fleet
from tests.server.harness import Person, Server


@pytest.fixture
def fleet(server: Server, person: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.setattr("pock_server.runner.background.DUTIES", ())
    monkeypatch.setattr(aggregating, "_run_child", lambda folder, seconds: aggregate_here(folder))
    found = Fleet(server, person, tmp_path, {name: server.device(person, FACTS) for name in NAMES})
    found.rename()
    found.data(dict.fromkeys(NAMES, 8))
    return found
