"""A request with an Idempotency-Key is served once."""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

import pock_server.models.service
from pock_server.actor import Source
from pock_server.auth.requests import by_key
from pock_server.auth.service import Caller
from pock_server.db.alive import is_alive
from pock_server.db.bells import listen_forever
from pock_server.db.unit import Unit
from pock_server.http.problems import Problem
from pock_server.hub import Hub
from pock_server.idempotency.service import Reservation
from pock_server.idempotency.tables import IdempotencyRecord
from pock_server.models.service import create_model
from pock_server.services import Services
from tests.server.harness import Person, Server, assert_problem

DAY = 86_400


def post(person: Person, key: str, name: str = "net", path: str = "/models") -> Any:
    body = {"name": name, "digest": person.upload(b"graph")}
    return person.post(path, body, headers={"Idempotency-Key": key})


def count(person: Person) -> int:
    return len(person.get("/models").json()["items"])


def test_repeat_is_answered_from_memory(person: Person) -> None:
    first, second = post(person, "k"), post(person, "k")
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json() and count(person) == 1
    assert "idempotency-replayed" not in first.headers and second.headers["idempotency-replayed"] == "true"


def test_other_body_with_the_same_key_is_refused(person: Person) -> None:
    post(person, "k")
    assert_problem(post(person, "k", name="other"), 422, 1008)
    assert count(person) == 1


def test_keys_belong_to_their_caller_and_route(server: Server, person: Person) -> None:
    post(person, "k")
    other = post(server.person(), "k", name="other")
    assert other.json()["id"] != post(person, "k").json()["id"] and "idempotency-replayed" not in other.headers
    assert_problem(post(person, "k", path="/datasets"), 422, 10004)


def test_failed_request_may_be_repeated(person: Person) -> None:
    body = {"name": "net", "digest": "0" * 64}
    for _ in range(2):
        assert_problem(person.post("/models", body, headers={"Idempotency-Key": "k"}), 404, 1005)
    assert post(person, "k").status_code == 201


def test_memory_ends_after_a_day(server: Server, person: Person) -> None:
    first = post(person, "k").json()
    server.clock.advance(DAY - 1)
    assert post(person, "k").json() == first
    server.clock.advance(2)
    again = post(person, "k")
    assert again.status_code == 200 and "idempotency-replayed" not in again.headers


def test_second_request_during_the_first_conflicts(server: Server, person: Person) -> None:
    body = {"name": "net", "digest": person.upload(b"graph")}
    reserved = reserve(server.services, _caller(server, person), "/v1/models", "k", b"{}")
    assert_problem(person.post("/models", body, headers={"Idempotency-Key": "k"}), 422, 1008)
    answer = person.call("POST", "/models", content=b"{}", headers={"Idempotency-Key": "k"})
    assert_problem(answer, 409, 1009)
    assert answer.json()["retryable"] is True and answer.headers["retry-after"]
    reserved.release()
    assert post(person, "k").status_code == 201


def test_reservation_of_a_dead_process_expires(server: Server, person: Person) -> None:
    reserve(server.services, _caller(server, person), "/v1/models", "k", b"{}")
    server.clock.advance(301)
    assert post(person, "k").status_code == 201


def test_a_dead_process_holds_no_key(server: Server, person: Person) -> None:
    """Killed with a request in its hands: a repeat is served at once, and the dead one's answer would come too late."""
    other = replace(server.services, hub=Hub())
    reserved = reserve(other, _caller(server, person), "/v1/models", "k", b"{}")
    assert post(person, "k").status_code == 201
    with pytest.raises(Problem), other.database.write() as unit:
        reserved.keep(unit, 201, {})
    reserved.release()
    assert post(person, "k").headers["idempotency-replayed"] == "true" and count(person) == 1


@pytest.mark.parametrize("engine_name", ["postgresql"], indirect=True)
def test_a_process_that_listens_is_alive(server: Server, person: Person) -> None:
    other = replace(server.services, hub=Hub())

    async def listening() -> None:
        task = asyncio.create_task(listen_forever(other.settings, other.hub))
        try:
            await asyncio.to_thread(_until, lambda: _lives(server, other.hub.name))
            reserve(other, _caller(server, person), "/v1/models", "k", b"{}")
            answer = person.call("POST", "/models", content=b"{}", headers={"Idempotency-Key": "k"})
            assert_problem(answer, 409, 1009)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(listening())
    _until(lambda: not _lives(server, other.hub.name))
    assert post(person, "k").status_code == 201


def _lives(server: Server, name: str) -> bool:
    with server.services.database.read() as session:
        return is_alive(session, name, server.services.hub.name)


def _until(true: Callable[[], bool]) -> None:
    ends = time.monotonic() + 30
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_many_at_once_make_one(person: Person) -> None:
    person.upload(b"graph")
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda: answers.append(post(person, "k"))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert len({answer.json()["id"] for answer in answers if answer.status_code == 201}) == 1
    assert count(person) == 1


def test_work_and_answer_are_kept_together(server: Server, person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that dies at any moment has done the work and remembers it, or neither: killed before the commit,
    nothing is there; killed after it, a repeat gets the first answer."""
    commit = Session.commit
    moments = iter(["before", "after"])

    def work(unit: Unit, *rest: Any) -> Any:
        def killed(self: Session) -> None:
            if next(moments) == "after":
                commit(self)
            raise RuntimeError("killed")

        monkeypatch.setattr(unit.session, "commit", partial(killed, unit.session))
        return create_model(unit, *rest)

    monkeypatch.setattr(Reservation, "release", lambda self: None)  # nobody is left to do it
    with monkeypatch.context() as patch:
        patch.setattr(pock_server.models.service, "create_model", work)
        for key in ("first", "second"):
            assert_problem(post(person, key), 500, 1000)
    assert count(person) == 1
    assert_problem(post(person, "first"), 409, 1009)
    assert post(person, "second").headers["idempotency-replayed"] == "true" and count(person) == 1
    server.clock.advance(301)
    assert post(person, "first").status_code == 200 and count(person) == 1


def test_a_request_slower_than_its_reservation_does_nothing(
    server: Server, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another request has taken its key meanwhile: only that one's work counts."""

    def slow(*arguments: Any) -> Any:
        monkeypatch.setattr(pock_server.models.service, "create_model", create_model)
        server.clock.advance(301)
        # The other request's reservation, in this one's transaction: SQLite has one writer at a time.
        arguments[0].session.execute(update(IdempotencyRecord).values(created_at=server.clock.now()))
        return create_model(*arguments)

    monkeypatch.setattr(pock_server.models.service, "create_model", slow)
    assert_problem(post(person, "k"), 409, 1009)
    assert count(person) == 0


def test_wrong_credentials_reserve_nothing(server: Server, person: Person) -> None:
    thief = Person(server.client, "pk_" + "0" * 32 + "_" + "0" * 64)
    assert_problem(thief.post("/models", {}, headers={"Idempotency-Key": "k"}), 401, 1001)
    post(person, "k")
    assert_problem(thief.post("/models", {}, headers={"Idempotency-Key": "k"}), 401, 1001)


def reserve(services: Services, caller: Caller, route: str, key: str, body: bytes) -> Reservation:
    """A request that has its key and is being served."""
    claim = Reservation.of(services, caller, route, key)
    assert claim.take(body) is None
    return claim


@pytest.mark.parametrize("lost", ["taken or not", "released or not"])
def test_a_cut_from_the_database_leaves_no_key_behind(
    server: Server, person: Person, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """The reservation was committed and its answer lost, or the request's work and its release both met the cut: the
    process lives on, so nobody takes it for dead, and the repeat is served as soon as the database is back."""
    person.upload(b"graph")
    down = OperationalError("cut", None, Exception("cut"))
    take, release, cut = Reservation.take, Reservation.release, threading.Event()
    cut.set()

    def taken(self: Reservation, body: bytes) -> Any:
        found = take(self, body)
        if lost == "taken or not" and cut.is_set():
            raise down
        return found

    def released(self: Reservation) -> None:
        if cut.is_set():
            raise down
        release(self)

    def work(*arguments: Any) -> Any:
        if cut.is_set():
            raise down
        return create_model(*arguments)

    monkeypatch.setattr(Reservation, "take", taken)
    monkeypatch.setattr(Reservation, "release", released)
    monkeypatch.setattr(pock_server.models.service, "create_model", work)
    assert_problem(post(person, "k"), 503, 1024)
    assert post(person, "k").status_code in (409, 503)
    cut.clear()
    _until(lambda: post(person, "k").status_code == 201)
    assert count(person) == 1


def _caller(server: Server, person: Person) -> Caller:
    return by_key(server.services, person.key, Source())


def test_every_documented_header_is_guarded(server: Server, person: Person) -> None:
    document = server.client.get("/openapi.json").json()
    declared = [
        (path, method)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if any(parameter["name"].lower() == "idempotency-key" for parameter in operation.get("parameters", []))
    ]
    assert len(declared) >= 8
    for path, method in declared:
        assert method == "post"
        # A guarded call is refused before its body is looked at.
        reserve(server.services, _caller(server, person), path, "taken", b"{}")
        answer = person.call("POST", path.removeprefix("/v1"), content=b"{}", headers={"Idempotency-Key": "taken"})
        assert_problem(answer, 409, 1009)
