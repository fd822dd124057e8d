"""The wrapping key is changed while the service runs, and whatever cuts that off leaves a service that works."""

import base64
from pathlib import Path

import pytest
from sqlalchemy import text

from pock_server.doctor import Finding, examine
from pock_server.services import make_services
from pock_server.trust.rewrap import forget_old
from pock_server.trust.start import KeyNotTrusted, secure_keys
from pock_server.trust.wrapping import CannotUnwrap
from tests.server.harness import Person, Server
from tests.server.trust.test_rotation import Operator


@pytest.fixture
def operator(server: Server, tmp_path: Path) -> Operator:
    return Operator(server, tmp_path)


def wrapped(server: Server) -> dict[str, str]:
    with server.services.database.engine.connect() as connection:
        rows = connection.execute(text("SELECT key_id, wrapped FROM signing_keys WHERE wrapped IS NOT NULL"))
        return {str(key): str(value) for key, value in rows}


def test_another_wrapping_key(operator: Operator, server: Server, person: Person) -> None:
    device = server.device(person)
    path, before = server.services.keys.wrapping.path, wrapped(server)
    old = path.read_bytes()
    path.chmod(0o640)
    assert operator.do("rotate-wrapping-key") == {"signing_keys": 1, "old_key_removed": True}
    after = wrapped(server)
    assert after.keys() == before.keys() and after != before
    assert path.read_bytes() != old and path.read_bytes().count(b"\n") == 1 and path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in path.parent.iterdir() if "wrapping" in entry.name] == [path.name]
    secure_keys(make_services(server.services.settings))  # a process that starts now opens them
    assert device.open_session().status_code == 200 and server.run(person, device).status_code == 202
    path.write_bytes(old)
    with pytest.raises(KeyNotTrusted, match="is not the wrapping key"):
        secure_keys(make_services(server.services.settings))


def test_a_wrapping_key_for_several_hosts(operator: Operator, server: Server, tmp_path: Path) -> None:
    path, before, draft = server.services.keys.wrapping.path, wrapped(server), tmp_path / "next.key"
    old = path.read_bytes()
    operator.do("rotate-wrapping-key", "--draft", draft)
    assert path.read_bytes() == old and wrapped(server) == before
    assert draft.read_bytes().endswith(b"\n" + old) and draft.stat().st_mode & 0o777 == 0o600
    assert "exists; name a new file" in operator.refused("rotate-wrapping-key", "--draft", draft)
    path.write_bytes(draft.read_bytes())
    secure_keys(make_services(server.services.settings))
    assert operator.do("rotate-wrapping-key", "--keep-old") == {"signing_keys": 1, "old_key_removed": False}
    assert path.read_bytes() == draft.read_bytes()  # no third key
    path.write_bytes(draft.read_bytes().splitlines(keepends=True)[0])
    secure_keys(make_services(server.services.settings))


@pytest.mark.parametrize("step", ["rewrap", "forget_old"])
def test_a_change_of_the_wrapping_key_that_is_cut_off(
    operator: Operator, server: Server, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    path = server.services.keys.wrapping.path
    old = path.read_bytes()
    monkeypatch.setattr(f"pock_server.cli.signing.wrapping.{step}", killed)
    assert operator.say("rotate-wrapping-key").exit_code != 0
    monkeypatch.undo()
    both = path.read_bytes()
    assert both.endswith(b"\n" + old)
    secure_keys(make_services(server.services.settings))  # the service starts all the same
    operator.do("rotate-wrapping-key")
    assert path.read_bytes() == both.splitlines(keepends=True)[0]
    secure_keys(make_services(server.services.settings))


def test_no_key_is_lost_with_an_old_wrapping_key(operator: Operator, server: Server) -> None:
    """One that another wrapping key has, unknown here, stops the change before anything is touched."""
    wrapping, before = server.services.keys.wrapping, wrapped(server)
    right = wrapping.path.read_bytes()
    wrong = base64.b64encode(bytes(32)) + b"\n"
    wrapping.path.write_bytes(wrong)
    assert operator.say("rotate-wrapping-key").exit_code != 0
    assert wrapping.path.read_bytes() == wrong and wrapped(server) == before
    wrapping.path.write_bytes(wrong + right)
    with server.services.database.write() as unit, pytest.raises(CannotUnwrap):
        forget_old(unit, wrapping)  # the database has not been changed: the second key is needed
    assert wrapping.path.read_bytes() == wrong + right


def test_what_is_damaged_in_the_database_is_not_opened(server: Server, person: Person) -> None:
    wrapping, (key_id, right) = server.services.keys.wrapping, *wrapped(server).items()
    assert wrapping.unwrap(right, key_id).key_id == key_id
    for damaged in ("", "x", "äöü", right[:8], right[:-8], "A" * len(right)):
        with pytest.raises(CannotUnwrap, match=key_id):
            wrapping.unwrap(damaged, key_id)


def test_the_doctor_tries_the_wrapping_key(server: Server) -> None:
    settings = server.services.settings

    def found() -> Finding:
        return next(finding for finding in examine(settings, {}) if finding.item == "wrapping key")

    path = settings.effective_wrapping_key_file
    right = path.read_bytes()
    assert found().outcome == "ok" and "opens 1 signing keys" in found().says
    path.write_bytes(right + base64.b64encode(bytes(32)) + b"\n")
    assert found().outcome == "warn" and "holds 2 keys" in found().says
    path.write_bytes(base64.b64encode(bytes(32)))
    assert found().outcome == "fail" and "is not the wrapping key of signing key" in found().says
    path.unlink()
    assert found().outcome == "fail" and "is gone" in found().says
    path.write_bytes(right)
