"""What keeps a runner from its work and is no build's fault: the build waits, and its attempt does not count."""

import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from pock_server.blobs.faults import StoreFailed
from pock_server.blobs.store import BlobStore
from pock_server.runner import background, sweeper
from pock_server.runner.claims import Broken, claim_next, finish, put_off
from pock_server.runner.rest import Rest
from pock_server.runs.leases import sweep
from tests.server.building.test_runner import finished, wait_for
from tests.server.conftest import ServerFactory
from tests.server.harness import FAKE_WORKER, Device, MovableClock, Person, Server

COMMAND = (sys.executable, str(FAKE_WORKER))


@pytest.fixture
def runner(start_server: ServerFactory) -> Server:
    return start_server(runner="inprocess", worker_command=COMMAND, max_attempts=1)


def log_of(person: Person, build: str) -> str:
    return str(person.get(f"/builds/{build}/log").text)


@pytest.mark.parametrize("what", ["download", "put_file"])
def test_a_store_that_is_away_costs_no_attempt(what: str, runner: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is away: the build has one attempt, and that one is the first when the store is back."""
    person, away = runner.person(), threading.Event()
    away.set()
    real: Callable[..., Any] = getattr(BlobStore, what)

    def perhaps(store: BlobStore, *arguments: Any) -> Any:
        if away.is_set():
            raise StoreFailed("it is away")
        return real(store, *arguments)

    monkeypatch.setattr(BlobStore, what, perhaps)
    build = person.build(name="succeed").json()["id"]
    wait_for(lambda: log_of(person, build).count("back to the queue: The object store does not do its work") >= 2)
    away.clear()
    assert finished(person, build)["state"] == "succeeded"
    assert "attempt 2" not in log_of(person, build)


def test_a_database_that_is_away_at_the_end_loses_no_build(runner: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    person, tries = runner.person(), iter(range(3))

    def away(*arguments: Any) -> None:
        if next(tries, None) is not None:
            raise OperationalError("COMMIT", {}, Exception("it is away"))
        finish(*arguments)

    monkeypatch.setattr(background, "finish", away)
    build = person.build(name="succeed").json()["id"]
    assert finished(person, build)["state"] == "succeeded"
    assert log_of(person, build).count("asked to succeed") == 1


def test_trouble_of_the_machine_counts(start_server: ServerFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have to do with the build, as a model that is larger than the disk."""

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device", str(Path("somewhere")))

    monkeypatch.setattr("pock_server.runner.child.furnish", full)
    server = start_server(runner="inprocess", worker_command=COMMAND, max_attempts=2)
    person = server.person()
    done = finished(person, person.build(name="succeed").json()["id"])
    assert (done["state"], done["failure"]["code"]) == ("failed", 2002)
    assert done["failure"]["detail"].endswith("No space left on device. Given up after 2 attempts.")


def test_nothing_is_put_off_for_ever(server: Server, person: Person) -> None:
    build, why = person.build().json()["id"], Broken(1031, "The store is away.")
    for _ in range(5):
        claim = claim_next(server.services)
        assert claim is not None and claim.attempt == 1
        put_off(server.services, claim, why, counted=False)
    server.clock.advance(server.services.settings.queue_deadline_seconds + 1)
    claim = claim_next(server.services)
    assert claim is not None
    put_off(server.services, claim, why, counted=False)
    put_off(server.services, claim, why, counted=False)  # a repeat changes nothing
    found = person.get(f"/builds/{build}").json()
    assert found["state"] == "failed" and found["failure"]["code"] == 1031


def test_who_was_lost_puts_nothing_off(server: Server, person: Person) -> None:
    person.build()
    first = claim_next(server.services)
    assert first is not None
    put_off(server.services, first, Broken(2002, "No room."), counted=True)
    second = claim_next(server.services)
    assert second is not None and second.attempt == 2
    put_off(server.services, first, Broken(2002, "No room."), counted=True)
    assert claim_next(server.services) is None


def test_what_cannot_be_swept_holds_nothing_up(
    server: Server, person: Person, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = server.built(person)["id"]
    runs = [server.run(person, device, build, queue_deadline_seconds=1).json()["id"] for _ in range(3)]

    def break_at_one(unit: Any, run: Any, *arguments: Any) -> None:
        if run.id == runs[1]:
            raise RuntimeError("a fault of ours")
        sweep(unit, run, *arguments)

    monkeypatch.setattr(sweeper, "sweep", break_at_one)
    server.clock.advance(10)
    sweeper.sweep_all(server.services)
    assert [person.get(f"/runs/{run}").json()["state"] for run in runs] == ["failed", "queued", "failed"]


def test_the_sweeper_rests_after_a_long_outage(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody could renew a lease meanwhile; a short one takes nobody's."""
    now = MovableClock()
    monkeypatch.setattr("pock_server.runner.rest.time.monotonic", lambda: now.moment.timestamp())
    settings = server.services.settings.model_copy(update={"lease_seconds": 300, "build_lease_seconds": 60})
    rest = Rest(replace(server.services, settings=settings, clock=now))
    monkeypatch.setattr(rest, "_watch", type("Still", (), {"jumped": lambda self: 0.0})())
    assert not rest.needed(True)
    for seconds, rests in ((20, False), (40, True)):
        assert rest.needed(False)
        now.advance(seconds)
        assert rest.needed(True) is rests
    now.advance(299)
    assert rest.needed(True)
    now.advance(2)
    assert not rest.needed(True)
