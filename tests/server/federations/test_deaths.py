"""A service that dies between the transactions of a federation."""

import threading
from typing import Any

import pytest

from pock_server.db.unit import Database, Unit
from tests.server.federations.federating import NAMES, Fleet, created, shown

pytestmark = pytest.mark.in_process("what the leading process does is done here, step by step")


class Killed(BaseException):
    """The service dies here."""


@pytest.mark.parametrize(
    ("place", "when"), [(0, "never"), *((place, when) for place in range(1, 7) for when in ("before", "after"))]
)
def test_a_service_that_dies_at_a_commit_loses_and_doubles_nothing(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, place: int, when: str
) -> None:
    """Six transactions make two rounds; the service dies at one of them, and goes on where it was."""
    commits = 0
    real = Database.write

    class Dying:
        def __init__(self, database: Database) -> None:
            self._inner = real(database)

        def __enter__(self) -> Unit:
            return self._inner.__enter__()

        def __exit__(self, *caught: Any) -> bool | None:
            nonlocal commits
            commits += 1
            dies = commits == place and caught[0] is None
            if dies and when == "before":
                self._inner.__exit__(Killed, Killed(), None)
                raise Killed
            done = self._inner.__exit__(*caught)
            if dies:
                raise Killed
            return done

    mine = threading.get_ident()  # the application's own threads write as they always do

    def write(database: Database) -> Any:
        return Dying(database) if threading.get_ident() == mine else real(database)

    one = created(fleet, aggregation="fedadam", clip_norm=5.0, noise_multiplier=0.01, server_learning_rate=0.1)
    died = 0
    with fleet.server.services.database.write() as unit:
        unit.session.connection().exec_driver_sql("UPDATE federations SET noise_key = 'the same each time'")

    def advance() -> None:
        nonlocal died
        for _ in range(2):
            with monkeypatch.context() as patched:
                patched.setattr(Database, "write", write)
                try:
                    fleet.advance()
                except Killed:
                    died += 1

    for _ in range(4):
        fleet.here()
        advance()
        for name, move in zip(NAMES, (1.0, 2.0, 3.0, 4.0), strict=True):
            fleet.train(name, move)
        advance()
    last = shown(fleet, one)
    assert died == (place > 0) and last["state"] == "succeeded"
    runs = fleet.person.get(f"/runs?part_of={one}").json()["items"]
    assert len(runs) == 8 and {run["state"] for run in runs} == {"succeeded"}
    assert len(fleet.person.get(f"/federations/{one}/rounds").json()["items"]) == 2
    assert last["weights_digest"] == _EXPECTED.setdefault("digest", last["weights_digest"])


_EXPECTED: dict[str, str] = {}
"""The weights where nothing dies: all others make the same."""
