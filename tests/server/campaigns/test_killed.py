"""The service dies at any write of what brings campaigns on, and goes on: no run is lost and none is doubled."""

from collections import Counter
from collections.abc import Callable

import pytest
from sqlalchemy.orm import Session

from tests.server.campaigns.fleet import boards, cells, get, go_on, started, work
from tests.server.harness import Person, Server


class Killed(Exception):
    """As a power cut: the write that it happens at is the last one."""


class Power:
    """Has the duties die at one of their writes, before or after it is committed, and counts those writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
        self._commit: Callable[[Session], None] = Session.commit
        self._patch, self._after = monkeypatch, after
        self.writes, self.dies_at = 0, 0

    def go_on(self, server: Server) -> None:
        with self._patch.context() as patch:
            patch.setattr(Session, "commit", lambda session: self._count(session))
            go_on(server)

    def _count(self, session: Session) -> None:
        self.writes += 1
        dies = self.writes == self.dies_at
        if dies and not self._after:
            raise Killed
        self._commit(session)
        if dies:
            raise Killed


@pytest.mark.in_process("breaks transactions of the service")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_any_write_it_loses_no_run_and_doubles_none(
    server: Server, person: Person, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """With a cell that is tried again, and a rule that stops it: it dies at its n-th write, for each n."""
    devices = boards(server, person, 3)
    options = {"retries": {"crashed": 1}, "retry_delay_seconds": 0, "seeds": [1, 2], "stop": {"failed": 2}}
    options["build_ids"] = [server.built(person)["id"]]
    power = Power(monkeypatch, after)
    while power.dies_at <= power.writes:
        power.dies_at, power.writes = power.dies_at + 1, 0
        campaign = started(server, person, **options)
        for codes in ((2001, None, None), (None, 2003, 2003), (None, None, None)):
            for _ in range(3):
                power.go_on(server)
            for device, code in zip(devices, codes, strict=True):
                work(device, code=code)
        for _ in range(3):
            power.go_on(server)
        check(person, campaign)
    assert power.dies_at > 8


def check(person: Person, campaign_id: str) -> None:
    """It ended, each cell has one outcome, and each run is one cell's."""
    done, found = get(person, campaign_id), cells(person, campaign_id)
    assert done["state"] == "failed" and done["cells"]["pending"] == done["cells"]["running"] == 0
    runs = person.get(f"/runs?part_of={campaign_id}").json()["items"]
    first = Counter((run["device_id"], run["seed"]) for run in runs if run["retry"] == 0)
    assert set(first.values()) == {1}, "a run was doubled"
    named = {cell["run_id"]: cell["state"] for cell in found if cell["run_id"]}
    assert named == {run["id"]: run["state"] for run in runs if run["retried_by"] is None}, "a run was lost"
    assert all(run["finished_at"] for run in runs)
