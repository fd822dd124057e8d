"""Webhooks over the API, and messages on their way: signed, repeated, given up, and never to where they must not go."""

import base64
import hashlib
import hmac
import ipaddress
import json
import socket
import threading
from typing import Any

import pytest

from pock_server.trust.rewrap import check_opens, forget_old, rewrap
from pock_server.webhooks import sending, signing
from pock_server.webhooks.addresses import Forbidden, read, resolve
from pock_server.webhooks.delivering import PATIENCE, PAUSES
from pock_server.webhooks.service import announce
from pock_server.webhooks.tables import Event
from tests.server.audit_log import entries
from tests.server.conftest import ServerFactory
from tests.server.harness import Person, Server, assert_problem
from tests.server.telling.conftest import Receiver, send

DAY = 86_400


@pytest.fixture
def server(start_server: ServerFactory) -> Server:
    """One that may send to this machine."""
    return start_server(webhook_networks="127.0.0.0/8")


def hook(person: Person, receiver: Receiver, **changes: Any) -> dict[str, Any]:
    made = person.post("/webhooks", {"url": f"{receiver.url}/in?key=7", "events": ["run.failed"], **changes})
    assert made.status_code == 201, made.text
    return dict(made.json())


def tell(server: Server, person: Person, **data: Any) -> None:
    home = person.get("/me").json()["workspace"]["id"]
    with server.services.database.write() as unit:
        announce(unit, home, Event.RUN_FAILED, data, server.clock.now())


def delivery(person: Person, made: dict[str, Any]) -> dict[str, Any]:
    (found,) = person.get(f"/webhooks/{made['id']}/deliveries").json()["items"]
    return dict(found)


def test_signatures_are_those_of_the_specification() -> None:
    """The vector of the Standard Webhooks reference libraries."""
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    found = signing.headers(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert found == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    assert signing.shown(secret) == "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_a_message_arrives_signed_with_the_secret_that_was_shown(
    server: Server, person: Person, receiver: Receiver
) -> None:
    made = hook(person, receiver)
    tell(server, person, run_id="r")
    assert send(server) == 1
    ((path, headers, body),) = receiver.got
    assert path == "/in?key=7" and headers["content-type"] == "application/json"
    assert headers["host"] == receiver.url.removeprefix("http://")
    told = json.loads(body)
    assert (told["type"], told["data"]) == ("run.failed", {"run_id": "r"})
    found = delivery(person, made)
    assert headers["webhook-id"] == f"msg_{found['id']}"
    assert headers["webhook-timestamp"] == str(int(server.clock.now().timestamp()))
    secret = base64.b64decode(made["secret"].removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    wanted = base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{wanted}"
    assert (found["state"], found["attempts"], found["status"], found["payload"]) == ("delivered", 1, 200, told)
    assert send(server) == 0


def test_it_is_tried_again_for_a_day_with_the_same_id(server: Server, person: Person, receiver: Receiver) -> None:
    made = hook(person, receiver)
    receiver.status = 500
    tell(server, person)
    for number, pause in enumerate((*PAUSES, 0), start=1):
        assert send(server) == 1
        found = delivery(person, made)
        assert (found["attempts"], found["status"], found["problem"]) == (number, 500, "It answered 500.")
        assert send(server) == 0, "not before its time"
        server.clock.advance(1.1 * pause + 1)
    assert (found["state"], found["next_at"]) == ("failed", None) and sum(PAUSES) >= DAY
    server.clock.advance(DAY)
    assert send(server) == 0
    assert len({headers["webhook-id"] for _, headers, _ in receiver.got}) == 1
    assert len({headers["webhook-timestamp"] for _, headers, _ in receiver.got}) == len(PAUSES) + 1


def test_one_that_was_killed_while_it_sent_is_sent_again(
    server: Server, person: Person, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = hook(person, receiver)
    tell(server, person)

    async def killed(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("pock_server.webhooks.delivering.send", killed)
    with pytest.raises(KeyboardInterrupt):
        send(server)
    monkeypatch.undo()
    assert delivery(person, made)["state"] == "pending" and send(server) == 0
    server.clock.advance(61)
    assert send(server) == 1 and delivery(person, made)["state"] == "delivered"


def test_who_fails_for_days_or_is_gone_is_disabled_and_can_be_enabled(
    server: Server, person: Person, receiver: Receiver
) -> None:
    made = hook(person, receiver)
    path = f"/webhooks/{made['id']}"
    receiver.status = 503
    tell(server, person)
    send(server)
    since = person.get(path).json()["failing_since"]
    assert since == server.clock.now().isoformat().replace("+00:00", "Z") and person.get(path).json()["enabled"]
    server.clock.advance(PATIENCE.total_seconds())
    tell(server, person)
    send(server)
    found = person.get(path).json()
    assert not found["enabled"] and "It has failed since" in found["disabled_reason"]
    assert entries(server)[-1]["action"] == "webhook.change" and entries(server)[-1]["actor"]["kind"] == "service"
    tell(server, person)
    server.clock.advance(DAY)
    send(server)
    states = [one["state"] for one in person.get(f"{path}/deliveries").json()["items"]]
    assert states == ["failed", "failed"], "what it waited for is given up, and nothing new is made"
    again = person.call("PATCH", path, json={"enabled": True}).json()
    assert (again["enabled"], again["failing_since"], again["disabled_reason"]) == (True, None, None)
    receiver.status = 410
    tell(server, person)
    send(server)
    assert person.get(path).json()["disabled_reason"] == "It answered 410: it wants no more."


def test_no_redirect_is_followed_and_no_answer_is_read(
    server: Server, person: Person, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = hook(person, receiver)
    receiver.status, receiver.location = 302, f"{receiver.url}/other"
    tell(server, person)
    send(server)
    assert [path for path, _, _ in receiver.got] == ["/in?key=7"]
    assert delivery(person, made)["problem"] == "It answered 302."
    receiver.status, receiver.location, receiver.body, receiver.length = 200, None, b"x", 1 << 40
    server.clock.advance(60)
    send(server)
    assert delivery(person, made)["state"] == "delivered", "a body without end is not waited for"
    receiver.stall = threading.Event()
    monkeypatch.setattr(sending, "SECONDS", 0.3)
    other = hook(person, receiver)
    tell(server, person)
    send(server)
    assert delivery(person, other)["problem"] == "It did not answer within 0 s."


def test_a_workspace_with_many_messages_does_not_hold_up_another(
    server: Server, person: Person, receiver: Receiver
) -> None:
    stranger = server.person(workspace="another")
    hook(person, receiver)
    late = hook(stranger, receiver)
    for _ in range(40):
        tell(server, person)
    server.clock.advance(1)
    tell(server, stranger)
    assert send(server) == 9
    assert delivery(stranger, late)["state"] == "delivered"


NETWORKS = (ipaddress.ip_network("10.1.0.0/16"),)


@pytest.mark.parametrize(
    "url",
    [
        *("http://", "ftp://example.com/", "https://", "https:///x", "https://u:p@example.com/", "https://a b/"),
        *(
            "https://example.com:0/",
            "https://example.com:99999/",
            "https://example.com/#x",
            "https://ex\u00e4mple.com/",
        ),
        *("https://127.0.0.1/", "https://10.0.0.1/", "https://169.254.169.254/latest", "https://0.0.0.0/"),
        *("https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://[fe80::1]/", "https://[fd00::1]/"),
        *("https://[64:ff9b::7f00:1]/", "https://[2002:7f00:1::]/", "https://224.0.0.1/", "https://100.64.0.1/"),
        *("https://[::]/", "https://192.168.0.1/", "https://[ff02::1]/", "https://example.com\\@10.0.0.1/"),
    ],
)
def test_addresses_that_nothing_is_sent_to(url: str) -> None:
    with pytest.raises(Forbidden):
        read(url, NETWORKS)


def test_names_are_resolved_and_each_of_their_addresses_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        "public": ["93.184.216.34"],
        "both": ["93.184.216.34", "127.0.0.1"],
        "metadata": ["169.254.169.254"],
        "allowed": ["10.1.2.3"],
        "zone": ["fe80::1%eth0"],
    }

    def addresses(host: str, port: int, **_: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in known[host]]

    monkeypatch.setattr(socket, "getaddrinfo", addresses)
    assert resolve(read("https://public/x?y", NETWORKS), NETWORKS) == "93.184.216.34"
    assert resolve(read("http://allowed/", NETWORKS), NETWORKS) == "10.1.2.3"
    for url in ("https://both/", "https://metadata/", "https://zone/", "http://public/"):
        with pytest.raises(Forbidden):
            resolve(read(url, NETWORKS), NETWORKS)


def test_what_a_name_means_at_the_time_of_sending_counts(
    start_server: ServerFactory, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server()
    person = server.person()
    assert_problem(person.post("/webhooks", {"url": f"{receiver.url}/", "events": ["run.failed"]}), 422, 1006)
    port = receiver.url.rpartition(":")[2]
    made = hook(person, receiver, url=f"https://localhost:{port}/")
    tell(server, person)
    send(server)
    assert "is not a public address" in delivery(person, made)["problem"] and receiver.got == []


def test_webhooks_are_kept_changed_and_forgotten(server: Server, person: Person, receiver: Receiver) -> None:
    made = hook(person, receiver, events=["run.failed", "benchmark.finished", "run.failed"], description="ops")
    secret = made.pop("secret")
    assert secret.startswith("whsec_") and made["url"] == f"{receiver.url}/in" and made["description"] == "ops"
    assert made["events"] == ["benchmark.finished", "run.failed"]
    path = f"/webhooks/{made['id']}"
    assert person.get(path).json() == made and person.get("/webhooks").json()["items"] == [made]
    files = [path for path in server.services.settings.data_dir.rglob("*") if path.is_file()]
    raw = secret.removeprefix("whsec_").encode()
    assert not any(raw in file.read_bytes() or base64.b64decode(raw) in file.read_bytes() for file in files)
    changed = person.call("PATCH", path, json={"events": ["regression.found"], "enabled": False}).json()
    assert (changed["events"], changed["enabled"], changed["url"]) == (["regression.found"], False, made["url"])
    assert_problem(person.call("PATCH", path, json={"url": "https://127.0.0.2x/ /"}), 422, 1006)
    refused: list[dict[str, Any]] = [{"events": []}, {"events": ["x"]}, {"url": ""}, {"url": "https://x/" + "y" * 2000}]
    for wrong in refused:
        assert_problem(person.post("/webhooks", {"url": receiver.url, "events": ["run.failed"], **wrong}), 422, 1006)
    stranger = server.person(workspace="another")
    assert stranger.get("/webhooks").json()["items"] == []
    assert_problem(stranger.get(f"{path}/deliveries"), 404, 1005)
    assert person.call("DELETE", path).status_code == 204
    assert_problem(person.get(path), 404, 1005)


def test_secrets_follow_a_change_of_the_wrapping_key(server: Server, person: Person, receiver: Receiver) -> None:
    made = hook(person, receiver)
    wrapping = server.services.keys.wrapping
    wrapping.add_key()
    with server.services.database.write() as unit:
        rewrap(unit, wrapping, server.clock.now())
        forget_old(unit, wrapping)
        check_opens(unit.session, wrapping, newest_only=True)
    tell(server, person)
    send(server)
    assert delivery(person, made)["state"] == "delivered"
