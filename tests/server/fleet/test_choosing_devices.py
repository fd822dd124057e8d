"""Labels, and devices that are chosen by them and by their facts: in the database, with a true count."""

import json
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import literal, select

from pock_server.auth.schemas import Scope
from pock_server.db.globs import matches
from tests.server.fleet.test_races import codes, together
from tests.server.harness import Device, Person, Server, assert_problem, command

GIB = 1 << 30


def add(server: Server, person: Person, name: str, facts: dict[str, Any] | None = None, **token: Any) -> str:
    """A device of this name; its id."""
    made = person.post("/enrollment-tokens", {"name": name, **token})
    assert made.status_code == 201, made.text
    device = Device(server.client, Ed25519PrivateKey.generate())
    assert device.enrol(made.json()["token"], facts).status_code == 201
    return device.id


def change(person: Person, device_id: str, **body: Any) -> Any:
    return person.call("PATCH", f"/devices/{device_id}", json=body)


def chosen(person: Person, selector: str, **parameters: Any) -> list[str]:
    """Names of the chosen devices, in order; there are as many as the answer says."""
    answer = person.get("/devices", params={"on": selector, **parameters})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["total"] == len(found["items"]) or found["next_cursor"]
    return sorted(item["name"] for item in found["items"])


def facts(gib: float, cores: int, arch: str, agent: str, target: str = "host") -> dict[str, Any]:
    return {
        "memory_bytes": int(gib * GIB),
        "cpus": cores,
        "machine": arch,
        "agent_version": agent,
        "target": target,
    }


def populate(server: Server, person: Person) -> Person:
    """Four devices: two with labels, one whose agent reports nothing, one that was revoked."""
    small, big = facts(0.5, 4, "aarch64", "0.1.0", "raspberry-pi-zero-2"), facts(8, 8, "x86_64", "0.2.1")
    add(server, person, "pi-1", small, pool="kitchen", labels={"room": "attic", "rack": "a*"})
    add(server, person, "pi-2", big, pool="kitchen", labels={"room": "hall, left"})
    add(server, person, "Pi-3", pool="lab")
    gone = add(server, person, "pi-4", big, pool="kitchen", labels={"room": "attic"})
    assert person.call("DELETE", f"/devices/{gone}").status_code == 204
    return person


@pytest.fixture(scope="module")
def fleet(shared: Server) -> Person:
    """Four devices that no test changes."""
    return populate(shared, shared.person(workspace="fleet"))


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("pi-*", ["pi-1", "pi-2"]),
        ("*", ["Pi-3", "pi-1", "pi-2"]),
        ("?i-3", ["Pi-3"]),
        ('"*"', []),
        ("name!=pi-1", ["Pi-3", "pi-2"]),
        ("pool=kitchen", ["pi-1", "pi-2"]),
        ("pool=kitchen,state=revoked", ["pi-4"]),
        ("pool=kitchen,state!=revoked", ["pi-1", "pi-2"]),
        ("state=busy", []),
        ("target=raspberry-pi-*", ["pi-1"]),
        ("arch=aarch64", ["pi-1"]),
        ("arch!=aarch64", ["Pi-3", "pi-2"]),
        ("ram>=512MiB", ["pi-1", "pi-2"]),
        ("ram>512MiB", ["pi-2"]),
        ("ram!=8GiB", ["Pi-3", "pi-1"]),
        ("cores<8", ["pi-1"]),
        ("agent>=0.2", ["pi-2"]),
        ("agent<0.10", ["pi-1", "pi-2"]),
        ("room=attic", ["pi-1"]),
        ("room!=attic", ["Pi-3", "pi-2"]),
        ("room=*", ["pi-1", "pi-2"]),
        ('room="hall, left"', ["pi-2"]),
        ('rack="a*"', ["pi-1"]),
        ("room=*,pool=kitchen,cores>=4,ram>=1GiB", ["pi-2"]),
        ("room=attic,room=hall*", []),
    ],
)
def test_selectors_choose(fleet: Person, selector: str, names: list[str]) -> None:
    assert chosen(fleet, selector) == names


def test_those_that_are_silent_are_offline(server: Server, person: Person) -> None:
    fleet = populate(server, person)
    assert chosen(fleet, "state=online") == ["Pi-3", "pi-1", "pi-2"] and chosen(fleet, "state!=online") == ["pi-4"]
    server.clock.advance(46)
    assert chosen(fleet, "state=offline") == ["Pi-3", "pi-1", "pi-2"] and chosen(fleet, "state=online") == []
    shown = fleet.get("/devices").json()["items"]
    assert [item["state"] for item in shown] == ["revoked", "offline", "offline", "offline"]


def test_a_device_that_has_work_is_busy(server: Server, person: Person, device: Device) -> None:
    server.run(person, device)
    device.take_work()
    assert chosen(person, "state=busy") == ["board"] and chosen(person, "state=online") == []


def test_facts_are_followed(server: Server, person: Person, device: Device) -> None:
    assert chosen(person, "ram>1GiB") == []
    beat = partial(device.call, "POST", "/heartbeat")
    assert beat(json={"state": "idle", "facts": facts(2, 4, "aarch64", "1.0")}).status_code == 200
    assert chosen(person, "ram>1GiB,cores=4,arch=aarch64,agent=1") == ["board"]
    odd = {"memory_bytes": True, "cpus": 2**40, "machine": 5, "agent_version": "unknown"}
    assert beat(json={"state": "idle", "facts": odd}).status_code == 200
    assert chosen(person, "ram>=0") == chosen(person, "cores>=0") == chosen(person, "agent>=0") == []
    assert beat(json={"state": "idle", "facts": {"memory_bytes": 2**64 - 1, "cpus": -1}}).status_code == 200
    assert chosen(person, "ram>=0") == []


def test_the_count_is_of_all_pages(server: Server, person: Person) -> None:
    for number in range(5):
        add(server, person, f"pi-{number}", labels={"even": str(number % 2 == 0)})
    first = person.get("/devices", params={"on": "even=True", "limit": 2}).json()
    rest = person.get("/devices", params={"on": "even=True", "limit": 2, "cursor": first["next_cursor"]}).json()
    assert first["total"] == rest["total"] == 3 and len(rest["items"]) == 1 and rest["next_cursor"] is None
    assert person.get("/devices?limit=1").json()["total"] == 5


def test_devices_change(person: Person, device: Device) -> None:
    assert change(person, device.id, labels={"room": "attic", "rack": "2"}).json()["labels"] == {
        "rack": "2",
        "room": "attic",
    }
    told = change(person, device.id, name="oven", pool="kitchen", labels={"rack": None, "room": "hall"}).json()
    assert (told["name"], told["pool"], told["labels"]) == ("oven", "kitchen", {"room": "hall"})
    assert person.get(f"/devices/{device.id}").json() == told
    assert change(person, device.id).json() == told
    (entry, _) = person.get("/audit?action=device.change").json()["items"]
    assert entry["changes"] == {
        "name": {"before": "board", "after": "oven"},
        "pool": {"before": "default", "after": "kitchen"},
        "labels": {"before": {"rack": "2", "room": "attic"}, "after": {"room": "hall"}},
    }


def test_labels_are_for_operators_of_the_workspace(server: Server, device: Device) -> None:
    body = {"labels": {"room": "attic"}}
    path = f"/devices/{device.id}"
    assert_problem(server.person(workspace="other").call("PATCH", path, json=body), 404, 1005)
    assert_problem(server.person(Scope.READ).call("PATCH", path, json=body), 403, 1004)
    assert server.person(workspace="other").get("/devices?on=*").json()["total"] == 0


@pytest.mark.parametrize(
    "labels",
    [
        {"pool": "x"},
        {"ram": "1"},
        {"": "x"},
        {"a b": "x"},
        {"a=b": "x"},
        {"k" * 64: "x"},
        {"-k": "x"},
        {"k": ""},
        {"k": "x" * 201},
        {"k": "a\nb"},
        {"k": "\x9b31m"},
        {"k": "\u202egnp.exe"},
        {"k": "a\u200bb"},
        {"k": 5},
        {f"k{n}": "x" for n in range(33)},
    ],
    ids=str,
)
def test_labels_that_nobody_could_read_or_ask_for(shared: Server, reader: Person, labels: dict[str, Any]) -> None:
    device = shared.device(reader)
    assert_problem(change(reader, device.id, labels=labels), 422, 1006)
    assert_problem(reader.post("/enrollment-tokens", {"labels": labels}), 422, 1006)
    assert reader.get(f"/devices/{device.id}").json()["labels"] == {}


def test_a_device_has_so_many_labels(person: Person, device: Device) -> None:
    assert change(person, device.id, labels={f"k{n}": "x" for n in range(32)}).status_code == 200
    assert_problem(change(person, device.id, labels={"one-more": "x"}), 422, 1006)
    assert change(person, device.id, labels={"one-more": "x", "k0": None}).status_code == 200


def test_hostile_texts_mean_themselves(person: Person, device: Device) -> None:
    value = "'; DROP TABLE devices; -- %_[a]\\ <script>alert(1)</script> {{7*7}} ${x} 🚲"
    assert change(person, device.id, labels={"note": value}).json()["labels"] == {"note": value}
    quoted = json.dumps(value, ensure_ascii=False)
    assert chosen(person, f"note={quoted}") == ["board"]
    assert chosen(person, 'note="%"') == chosen(person, "note=[a]") == chosen(person, "note=__") == []
    assert chosen(person, "note=*%_[[]a]*") == [] and chosen(person, "note=*%_[a]\\ *") == ["board"]


def test_labels_that_change_at_once(person: Person, device: Device) -> None:
    calls = [partial(change, person, device.id, labels={f"k{n % 3}": str(n), "all": str(n)}) for n in range(9)]
    assert codes(together(calls)) == {200: 9}
    assert set(person.get(f"/devices/{device.id}").json()["labels"]) == {"all", "k0", "k1", "k2"}


@pytest.mark.parametrize("selector", ["", "ram>=much", "a," * 900, "pool>a", "x" * 201, '"', "a" + ",a" * 40])
def test_a_bad_selector_is_told_where(reader: Person, selector: str) -> None:
    answer = reader.get("/devices", params={"on": selector})
    assert_problem(answer, 422, 1006)
    assert "query.on: " in answer.json()["detail"] and "at character " in answer.json()["detail"]


def test_ten_thousand_terms_are_refused_unread(reader: Person) -> None:
    assert reader.get("/devices", params={"on": ",".join(["a"] * 5_000)}).status_code in (422, 431)


NAMES = ["pi-1", "PI-1", "pi", "p%", "p_", "p\\x", "a[b]c", "a*", "?", "", "äöü", "a" * 200]
PATTERNS = ["*", "pi-?", "p%", "p_", "p\\*", "p*", "a[b]c", "a[b]?", "*[*", "??", "?", "***", "*a*a*", "ä?ü", "%", "_"]


def test_globs_mean_the_same_in_both_databases(shared: Server) -> None:
    with shared.services.database.read() as session:
        for pattern in PATTERNS:
            plain = pattern.replace("[", "[[]")
            for name in NAMES:
                found = session.scalar(select(matches(literal(name), pattern)))
                assert bool(found) == fnmatchcase(name, plain), (name, pattern)


@pytest.mark.timeout(60)
def test_no_glob_keeps_the_database(shared: Server) -> None:
    """A naive matcher would try 10^20 ways."""
    with shared.services.database.read() as session:
        for pattern in ("*a" * 99 + "b", "*" * 200, "*?" * 99 + "b", ("*" + "a" * 8) * 22 + "b"):
            assert not session.scalar(select(matches(literal("a" * 200), pattern))) or pattern == "*" * 200


def test_tokens_of_the_command_line_give_labels(server: Server, person: Person) -> None:
    made = command(server, "create-token", "--label", "room=attic", "--label", "rack=a=b")
    device = Device(server.client, Ed25519PrivateKey.generate())
    assert device.enrol(made.stdout.strip()).status_code == 201
    assert person.get(f"/devices/{device.id}").json()["labels"] == {"rack": "a=b", "room": "attic"}
    for wrong in ("room", "pool=x", "room="):
        refused = command(server, "create-token", "--label", wrong)
        assert refused.exit_code == 2 and "label" in refused.stderr
