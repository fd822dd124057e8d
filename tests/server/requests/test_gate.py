"""The gate in front of every request: rates, whose address counts, and health that waits for nothing."""

import threading
from typing import Any

import pytest
from fastapi.testclient import TestClient

from pock_server.gate.doors import Door, way_of
from pock_server.gate.rates import Rate, Rates
from pock_server.http.guard import origin
from tests.server.conftest import ServerFactory
from tests.server.harness import Person, Server, assert_problem


def from_address(server: Server, host: str) -> TestClient:
    """A client at another address."""
    return TestClient(server.client.app, client=(host, 4000), raise_server_exceptions=False)


def refuse(answer: Any) -> None:
    assert_problem(answer, 429, 1043)
    assert answer.json()["retryable"] is True and int(answer.headers["retry-after"]) >= 1


def test_a_bucket_refills() -> None:
    now = 0.0
    rates = Rates(Rate(per_second=2, burst=3), lambda: now)
    for _ in range(3):
        assert rates.wait("a") == 0
        rates.count("a")
    assert rates.wait("a") == pytest.approx(0.5) and rates.wait("b") == 0
    now = 0.5
    assert rates.wait("a") == 0
    rates.count("a")
    now = 100.0
    for _ in range(3):
        rates.demand("a", "A test")
    assert rates.wait("a") > 0


def test_rate_of_a_key(start_server: ServerFactory) -> None:
    server = start_server(key_rate=0.01, key_burst=3)
    busy, other = server.person(), server.person()
    assert [busy.get("/models").status_code for _ in range(3)] == [200] * 3
    refuse(busy.get("/models"))
    assert other.get("/models").status_code == 200


def test_rate_of_a_device(start_server: ServerFactory) -> None:
    server = start_server(device_rate=0.01, device_burst=3)
    person = server.person()
    busy, other = server.device(person), server.device(person)
    for _ in range(3):
        assert busy.call("POST", "/heartbeat", json={"state": "idle"}).status_code == 200
    refuse(busy.call("POST", "/heartbeat", json={"state": "idle"}))
    assert busy.open_session().status_code == 200
    refuse(busy.call("POST", "/heartbeat", json={"state": "idle"}))  # a new session is no new device
    assert other.call("POST", "/heartbeat", json={"state": "idle"}).status_code == 200


def test_rate_of_an_address(start_server: ServerFactory) -> None:
    server = start_server(address_rate=0.01, address_burst=3)
    busy, other = from_address(server, "192.0.2.1"), from_address(server, "192.0.2.2")
    for path in ("/v1/models", "/openapi.json", "/"):
        assert busy.get(path).status_code != 429
    for path in ("/v1/models", "/v1/enroll", "/metrics", "/"):
        refuse(busy.get(path))
    assert busy.get("/healthz").status_code == 200
    assert other.get("/v1/models").status_code == 401


def test_who_guesses_must_wait_and_locks_nobody_out(start_server: ServerFactory) -> None:
    server = start_server(failure_rate=0.01, failure_burst=5)
    person = server.person()
    assert person.get("/models").status_code == 200
    guesses = [
        lambda: server.client.get("/v1/models", headers={"Authorization": f"Bearer {person.key[:-4]}0000"}),
        lambda: server.client.post("/v1/enroll", json=enrolment()),
        lambda: server.client.get("/v1/agent/work", headers={"Authorization": "Bearer ps_x"}),
    ]
    for n in range(5):
        assert guesses[n % 3]().status_code == 401
    for guess in guesses:
        refuse(guess())
    assert person.get("/models").status_code == 200  # was good a moment ago
    assert from_address(server, "192.0.2.9").get("/v1/models").status_code == 401


def enrolment() -> dict[str, str]:
    return {"token": "pt_x", "name": "x", "public_key": "A" * 43 + "="}


@pytest.mark.parametrize(
    ("header", "counted"),
    [
        ("198.51.100.7", "198.51.100.7"),
        ("203.0.113.5, 198.51.100.7", "198.51.100.7"),
        ("198.51.100.7, 10.0.0.2", "198.51.100.7"),
        ("2001:db8::1", "2001:db8::/64"),
    ],
)
def test_addresses_behind_a_trusted_proxy(start_server: ServerFactory, header: str, counted: str) -> None:
    """The nearest address that is no proxy's counts; what a client writes in front of it does not."""
    server = start_server(address_rate=0.01, address_burst=1, trusted_proxies="10.0.0.0/8, 192.0.2.1")
    proxy, stranger = from_address(server, "10.0.0.1"), from_address(server, "192.0.2.77")
    assert proxy.get("/v1/models", headers={"X-Forwarded-For": header}).status_code == 401
    refuse(proxy.get("/v1/models", headers={"X-Forwarded-For": counted.replace("::/64", "::2")}))
    assert proxy.get("/v1/models", headers={"X-Forwarded-For": "203.0.113.99"}).status_code == 401
    assert stranger.get("/v1/models", headers={"X-Forwarded-For": "203.0.113.1"}).status_code == 401
    refuse(stranger.get("/v1/models", headers={"X-Forwarded-For": "203.0.113.2"}))


def test_proxies_are_networks(start_server: ServerFactory) -> None:
    with pytest.raises(ValueError, match="trusted_proxies"):
        start_server(trusted_proxies="proxy.example.org")


def test_origin() -> None:
    assert origin("2001:db8::1") == origin("2001:db8::ffff") != origin("2001:db8:0:1::1")
    assert origin("::ffff:192.0.2.1") == origin("192.0.2.1")
    assert origin("x" * 500) == "x" * 64


def test_health_waits_for_nothing(start_server: ServerFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every thread of the pool waits, and the database does not answer."""
    server = start_server(threads=4)
    go_on = threading.Event()

    def wait(*_: object) -> None:
        assert go_on.wait(60)
        raise RuntimeError("enough")

    monkeypatch.setattr("pock_server.gate.middleware.identify", wait)
    monkeypatch.setattr("pock_server.health.service._check_database", wait)
    monkeypatch.setattr("pock_server.health.probe._WAIT_SECONDS", 0.1)
    callers = [threading.Thread(target=server.client.get, args=("/v1/models",)) for _ in range(8)]
    try:
        for caller in callers:
            caller.start()
        for _ in range(3):
            assert server.client.get("/healthz").json() == {"status": "ok"}
            assert_problem(server.client.get("/readyz"), 503, 1024)
    finally:
        go_on.set()
        for caller in callers:
            caller.join()


def test_readiness_is_asked_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("pock_server.health.service._check_database", lambda _: asked.append(1))
    for _ in range(20):
        assert server.client.get("/readyz").status_code == 200
    assert len(asked) < 20


def test_every_declared_credential_is_asked_for_at_the_gate(server: Server) -> None:
    """The document says which credential a call needs, and the gate asks for that one."""
    wanted = {"apiKey": Door.KEY, "browserSession": Door.KEY, "deviceSession": Door.DEVICE}
    document = server.client.get("/openapi.json").json()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            door = way_of(method.upper(), path).door
            schemes = [name for entry in operation.get("security", []) for name in entry]
            if schemes:
                assert {door} == {wanted[name] for name in schemes}, (method, path)
            else:
                assert door in (Door.OPEN, Door.STRANGER), (method, path)


def test_a_compressed_body_is_refused(person: Person) -> None:
    answer = person.call("POST", "/models", content=b"\x1f\x8b", headers={"Content-Encoding": "gzip"})
    assert_problem(answer, 415, 1044)
