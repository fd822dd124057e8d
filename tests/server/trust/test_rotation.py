"""Keys are changed while the service runs, by the command line, online and with a root key kept elsewhere."""

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from sqlalchemy import text

from pock_server.runner.sweeper import sweep_all
from pock_server.services import make_services
from pock_server.signing import Signer, create_key, key_id_of, read_key, verify
from pock_server.trust.chain import latest
from pock_server.trust.documents import BadDocument, Trust, follow, payload_of, read, sign
from pock_server.trust.keyring import latest_version
from pock_server.trust.schemas import TrustDocument
from pock_server.trust.start import KeyNotTrusted, secure_keys
from tests.server.harness import Device, MovableClock, Person, Server, assert_problem, command

pytestmark = pytest.mark.in_process("turns the keys of the whole service")


class Operator:
    """Someone at the command line of the server's machine."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.root = server.services.settings.effective_root_key_file

    def say(self, *words: object) -> Result:
        """Any command, whatever comes of it."""
        return command(self.server, *words)

    def do(self, *words: object) -> dict[str, Any]:
        """A command that has to work; its JSON."""
        done = self.say(*words, "--json")
        assert done.exit_code == 0, done.output
        return dict(json.loads(done.stdout))

    def refused(self, *words: object) -> str:
        """A command that has to be refused with one sentence; it changes nothing."""
        before = self.version()
        done = self.say(*words)
        assert done.exit_code == 2 and done.stderr.count("\n") == 1, done.output
        assert self.version() == before
        return str(done.stderr)

    def version(self) -> int:
        with self.server.services.database.read() as session:
            return latest_version(session)

    def new_root(self, name: str) -> Path:
        path = self.folder / name
        assert self.say("trust", "new-root-key", path).exit_code == 0
        return path

    def trust(self) -> Trust:
        with self.server.services.database.read() as session:
            found = latest(session)
        assert found is not None
        return found


@pytest.fixture
def operator(server: Server, tmp_path: Path) -> Operator:
    return Operator(server, tmp_path)


@pytest.fixture
def bystander(shared: Server, tmp_path: Path) -> Operator:
    """One whose commands are all refused, so that one server does for all."""
    return Operator(shared, tmp_path)


def fetch(server: Server, version: int | None = None) -> TrustDocument:
    answer = server.client.get("/v1/trust" if version is None else f"/v1/trust/{version}")
    assert answer.status_code == 200
    return TrustDocument.model_validate(answer.json())


def chain(server: Server) -> list[Trust]:
    """Every version, verified as an agent does: each by the one before."""
    found: list[Trust] = []
    while server.client.get(f"/v1/trust/{len(found) + 1}").status_code == 200:
        found.append(follow(fetch(server, len(found) + 1), found[-1] if found else None))
    assert_problem(server.client.get(f"/v1/trust/{len(found) + 1}"), 404, 1005)
    return found


def key_of_work(server: Server, person: Person, device: Device) -> str:
    """The key that signs the device's next work; the signature holds."""
    builds = person.get("/builds").json()["items"]
    server.run(person, device, builds[0]["id"] if builds else None)
    envelope = device.poll().json()
    public = {key_id_of(key): key for trust in chain(server) for key in trust.signing_keys}[envelope["key_id"]]
    assert verify(public, envelope["signature"], base64.b64decode(envelope["payload"]))
    device.work = json.loads(base64.b64decode(envelope["payload"]))
    return str(envelope["key_id"])


def test_a_new_signing_key(operator: Operator, server: Server, person: Person, device: Device) -> None:
    """The running service signs with it from the next lease on, and tells agents of it."""
    device.trust = 1
    first = key_of_work(server, person, device)
    done = operator.do("rotate-keys")
    assert done["version"] == 2 and done["signing_keys"] != [first] and done["pinned"] == {}
    assert [key_of_work(server, person, device)] == done["signing_keys"]
    assert device.poll().headers["pock-trust-version"] == "2"
    assert [trust.version for trust in chain(server)] == [1, 2]
    assert fetch(server) == fetch(server, 2)
    assert server.device(person).pinned["trust"] == fetch(server).model_dump()
    assert operator.do("trust", "show")["devices"] == {"1": 1}


def test_devices_of_before_go_on_with_the_key_that_they_pinned(
    operator: Operator, server: Server, person: Person, device: Device
) -> None:
    pinned = device.pinned["key_id"]
    done = operator.do("rotate-keys")
    assert done["pinned"] == {pinned: 1}
    assert "1 devices know no trust document" in operator.say("rotate-keys").stdout
    assert key_of_work(server, person, device) == pinned
    device.trust = 3
    assert [key_of_work(server, person, device)] == operator.do("trust", "show")["signing_keys"]


def test_a_retired_key_is_erased_once_no_device_needs_it(operator: Operator, server: Server, device: Device) -> None:
    def kept() -> set[str]:
        with server.services.database.read() as session:
            query = text("SELECT key_id FROM signing_keys WHERE wrapped IS NOT NULL")
            return {row[0] for row in session.execute(query)}

    operator.do("rotate-keys")
    assert device.pinned["key_id"] in kept() and len(kept()) == 2
    device.trust = 2
    device.poll()
    operator.do("rotate-keys")
    assert kept() == set(operator.do("trust", "show")["signing_keys"])


def test_a_stolen_key_is_never_used_again(operator: Operator, server: Server, person: Person, device: Device) -> None:
    """Devices that cannot be told otherwise are revoked, and named."""
    modern = server.device(person)
    modern.trust = 1
    modern.poll()
    run = server.run(person, device).json()["id"]
    stolen = device.pinned["key_id"]
    done = operator.do("rotate-keys", "--revoke", stolen, "--yes")
    assert [(found["id"], found["name"]) for found in done["revoked"]] == [(device.id, "board")]
    assert_problem(device.open_session(), 401, 1020)
    assert person.get(f"/runs/{run}").json()["failure"]["code"] == 2005
    assert key_of_work(server, person, modern) in done["signing_keys"] != [stolen]
    assert "no signing key" in operator.refused("rotate-keys", "--revoke", "0" * 16, "--yes")
    assert operator.say("rotate-keys", "--revoke", stolen).exit_code == 1


def test_a_device_that_claims_to_pin_a_stolen_key_gets_no_work(
    operator: Operator, server: Server, person: Person, device: Device
) -> None:
    """An agent that was put back to one of before trust documents, after the key was revoked."""
    device.trust = 1
    device.poll()
    operator.do("rotate-keys", "--revoke", device.pinned["key_id"], "--yes")
    server.run(person, device)
    device.trust = None
    assert_problem(device.poll(), 401, 1020)
    assert_problem(device.call("GET", "/trust"), 409, 1014)


def test_another_root_key_is_signed_by_both(operator: Operator, server: Server) -> None:
    new = operator.new_root("new.pem")
    assert "1 have to" in operator.refused("rotate-keys", "--new-root", f"{new}.pub")
    assert "1 have to" in operator.refused("rotate-keys", "--new-root", f"{new}.pub", "--root-key", new)
    both = ("--root-key", operator.root, "--root-key", new)
    done = operator.do("rotate-keys", "--new-root", f"{new}.pub", *both, "--keep-signing-key")
    assert done["root_keys"] == [read_key(new).key_id]
    first, second = chain(server)
    assert first.signing_keys == second.signing_keys and first.root_keys != second.root_keys
    assert "1 have to" in operator.refused("rotate-keys")
    assert operator.do("rotate-keys", "--root-key", new)["version"] == 3


def test_a_root_key_that_never_touches_the_service(operator: Operator, server: Server, person: Person) -> None:
    """Drafted here, signed there, published here."""
    away, file = operator.new_root("away.pem"), operator.folder / "draft.json"
    both = ("--root-key", operator.root, "--root-key", away)
    operator.do("rotate-keys", "--new-root", f"{away}.pub", *both)
    operator.root.unlink()
    assert "--draft" in operator.refused("rotate-keys")
    assert operator.do("rotate-keys", "--draft", file)["version"] == 3
    assert operator.version() == 2 and "1 have to" in operator.refused("trust", "publish", file)
    assert operator.do("trust", "sign", file, "--root-key", away)["signed_by"] == [read_key(away).key_id]
    done = operator.do("trust", "publish", file)
    assert done["version"] == 3 and server.device(person).pinned["key_id"] in done["signing_keys"]
    assert "version 4 is the next" in operator.refused("trust", "publish", file)
    assert operator.do("trust", "show")["root_key_here"] is False


def test_two_of_three_root_keys(operator: Operator, server: Server) -> None:
    keys = [operator.new_root(f"root{number}.pem") for number in range(3)]
    publics = [word for key in keys for word in ("--new-root", f"{key}.pub")]
    signers = ("--root-key", operator.root, "--root-key", keys[0], "--root-key", keys[1])
    assert operator.do("rotate-keys", *publics, "--threshold", 2, *signers)["threshold"] == 2
    assert "2 have to" in operator.refused("rotate-keys", "--root-key", keys[2])
    assert "2 have to" in operator.refused("rotate-keys", "--root-key", keys[2], "--root-key", keys[2])
    assert operator.do("rotate-keys", "--root-key", keys[2], "--root-key", keys[0])["threshold"] == 2
    assert len(chain(server)) == 3


Forgery = Callable[[Trust, Signer], TrustDocument]
FORGERIES: dict[str, tuple[Forgery, str]] = {
    "a gap": (lambda next_, root: sign(replace(next_, version=3).draft(), [root]), "version 2 is the next"),
    "a rollback": (lambda next_, root: sign(replace(next_, version=1).draft(), [root]), "version 2 is the next"),
    "no signature": (lambda next_, root: next_.draft(), "0 root keys"),
    "a stranger's signature": (lambda next_, root: sign(next_.draft(), [Signer.generate()]), "0 root keys"),
    "a signature over another text": (
        lambda next_, root: next_.draft().model_copy(
            update={"signatures": sign(replace(next_, version=9).draft(), [root]).signatures}
        ),
        "0 root keys",
    ),
    "a life that is over": (
        lambda next_, root: sign(replace(next_, expires_at=datetime(2020, 1, 1, tzinfo=UTC)).draft(), [root]),
        "expired",
    ),
    "a signing key of somebody else": (
        lambda next_, root: sign(replace(next_, signing_keys=(Signer.generate().public_key,)).draft(), [root]),
        "cannot use",
    ),
    "a threshold above its keys": (
        lambda next_, root: sign(replace(next_, threshold=2).draft(), [root]),
        "threshold",
    ),
    "a key twice": (
        lambda next_, root: sign(replace(next_, signing_keys=next_.signing_keys * 2).draft(), [root]),
        "twice",
    ),
    "spaces in the text": (lambda next_, root: sign(spaced(next_), [root]), "one form"),
    "an unknown field": (lambda next_, root: sign(with_field(next_), [root]), "exactly"),
}


def spaced(trust: Trust) -> TrustDocument:
    text = json.dumps(json.loads(trust.text())).encode()
    return TrustDocument(payload=base64.b64encode(text).decode(), signatures=[])


def with_field(trust: Trust) -> TrustDocument:
    text = json.dumps({**json.loads(trust.text()), "note": "x"}).encode()
    return TrustDocument(payload=base64.b64encode(text).decode(), signatures=[])


@pytest.mark.parametrize("name", FORGERIES)
def test_it_publishes_nothing_that_agents_would_refuse(name: str, bystander: Operator) -> None:
    forge, reason = FORGERIES[name]
    now = bystander.server.clock.now()
    trust = replace(bystander.trust(), version=2, issued_at=now, expires_at=now + timedelta(days=30))
    file = bystander.folder / "signed.json"
    file.write_text(forge(trust, read_key(bystander.root)).model_dump_json())
    assert reason in bystander.refused("trust", "publish", file)


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", b'{"payload": 1, "signatures": []}', b" " * 70_000])
def test_a_file_that_is_no_document(content: bytes, bystander: Operator) -> None:
    file = bystander.folder / "file"
    file.write_bytes(content)
    for words in (("publish", file), ("sign", file, "--root-key", bystander.root)):
        assert "trust document" in bystander.refused("trust", *words)
    assert file.read_bytes() == content


def test_words_that_make_no_sense(bystander: Operator) -> None:
    existing = bystander.new_root("root.pem")
    assert "never overwritten" in bystander.refused("trust", "new-root-key", existing)
    assert "No such file" in bystander.refused("trust", "publish", bystander.folder / "none")
    assert "private key" in bystander.refused("rotate-keys", "--root-key", f"{existing}.pub")
    assert ".pub" in bystander.refused("rotate-keys", "--new-root", existing)
    assert "--new-root" in bystander.refused("rotate-keys", "--threshold", 2)
    assert "publish" in bystander.refused("rotate-keys", "--draft", bystander.folder / "d", "--revoke", "0" * 16)
    assert "exists" in bystander.refused("rotate-keys", "--draft", existing)
    assert "--root-key" in bystander.refused("trust", "sign", existing)


def test_the_service_renews_what_ends_soon(operator: Operator, server: Server) -> None:
    """Where it has the root key; the signing key stays."""
    before = operator.trust()
    server.clock.advance(200 * 86400)
    sweep_all(server.services)
    assert operator.version() == 1
    server.clock.advance(100 * 86400)
    sweep_all(server.services)
    after = operator.trust()
    assert (after.version, after.signing_keys) == (2, before.signing_keys)
    assert after.expires_at - server.clock.now() == timedelta(days=365)
    operator.root.unlink()
    server.clock.advance(300 * 86400)
    sweep_all(server.services)
    secure_keys(server.services)
    assert operator.version() == 2


def test_another_process_of_the_service_signs_with_the_new_key(
    operator: Operator, server: Server, person: Person, device: Device
) -> None:
    """Two processes share nothing but the database and the wrapping key."""
    clock = MovableClock()
    other = make_services(server.services.settings, clock)
    with other.database.read() as session:
        assert other.keys.current(session).signer.key_id == device.pinned["key_id"]
    done = operator.do("rotate-keys")
    with other.database.read() as session:
        assert [other.keys.current(session).signer.key_id] == done["signing_keys"]
    other.database.engine.dispose()


def test_a_service_restored_from_an_older_backup_says_so(operator: Operator, device: Device) -> None:
    device.trust = 7
    device.poll()
    assert "above 7" in operator.say("trust", "show").stdout
    assert operator.do("trust", "show")["devices_ahead"] == 1


def test_without_a_signing_key_and_without_the_root_key(operator: Operator, server: Server, device: Device) -> None:
    """The wrapping key is lost, and the root key is kept elsewhere: it signs for a new signing key."""
    device.trust = 1
    device.poll()
    away = operator.folder / "away.pem"
    operator.root.rename(away)
    server.services.settings.effective_wrapping_key_file.unlink()
    assert operator.say("revoke-devices", "--yes").exit_code == 0
    with pytest.raises(KeyNotTrusted, match="--root-key FILE"):
        secure_keys(server.services)
    assert operator.do("rotate-keys", "--root-key", away)["version"] == 2
    secure_keys(server.services)


def test_an_introduction_is_for_one_device(operator: Operator, server: Server, device: Device) -> None:
    """An agent that learned of trust documents after it was enrolled: the key that it pinned vouches for the newest."""
    operator.do("rotate-keys")
    answer = device.call("GET", "/trust").json()
    assert answer["document"] == fetch(server).model_dump() and answer["key_id"] == device.pinned["key_id"]
    digest = hashlib.sha256(payload_of(fetch(server))).hexdigest()
    message = f"pock-trust-introduction\n{device.id}\n{digest}".encode()
    assert verify(device.pinned["server_public_key"], answer["signature"], message)
    assert_problem(server.client.get("/v1/agent/trust"), 401, 1001)


def test_a_root_key_file_that_is_none(operator: Operator) -> None:
    operator.root.write_text("not a key")
    assert "private key" in operator.refused("rotate-keys")


def test_reading_its_own_text(operator: Operator) -> None:
    trust = operator.trust()
    assert read(trust.draft()) == trust
    with pytest.raises(BadDocument):
        read(TrustDocument(payload="!", signatures=[]))
    with pytest.raises(BadDocument):
        read(TrustDocument(payload=base64.b64encode(b"[" * 20_000).decode(), signatures=[]))
    assert create_key(operator.root).key_id == key_id_of(trust.root_keys[0])
