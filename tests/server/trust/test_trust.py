"""A service never starts without the keys that its fleet believes."""

import base64
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from sqlalchemy import select, text

from pock_server.services import make_services
from pock_server.settings import Settings
from pock_server.signing import create_key, key_id_of
from pock_server.trust.start import KeyNotTrusted, renew, secure_keys
from pock_server.trust.tables import TrustDocumentRecord
from pock_server.trust.wrapping import WrappingKey
from tests.server.conftest import ServerFactory
from tests.server.databases import Databases
from tests.server.harness import Device, Person, Server, assert_problem, command


def replace_wrapping(path: Path) -> None:
    path.unlink()
    WrappingKey(path).create()


def replace_signing(path: Path) -> None:
    path.unlink()
    create_key(path)


def put_back_in_time(server: Server) -> Path:
    """Make it a service of before trust documents, with one device; the path of its signing key."""
    services = server.services
    with services.database.read() as session:
        signer = services.keys.current(session).signer
    folder = services.settings.data_dir / "keys"
    shutil.rmtree(folder)
    path = folder / "signing.pem"
    create_key(path)
    with services.database.engine.begin() as connection:
        connection.execute(text("DELETE FROM trust_documents"))
        connection.execute(text("DELETE FROM signing_keys"))
    path.write_bytes(signer.private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return path


CHANGES: dict[str, Callable[[Server], Path]] = {
    "wrapping key lost": lambda server: _changed(server, Path.unlink),
    "wrapping key replaced": lambda server: _changed(server, replace_wrapping),
    "signing key of before lost": lambda server: _changed_before(server, Path.unlink),
    "signing key of before replaced": lambda server: _changed_before(server, replace_signing),
}


def _changed(server: Server, change: Callable[[Path], None]) -> Path:
    path = server.services.settings.effective_wrapping_key_file
    change(path)
    return path


def _changed_before(server: Server, change: Callable[[Path], None]) -> Path:
    path = put_back_in_time(server)
    change(path)
    return path


@pytest.fixture(params=list(CHANGES.values()), ids=list(CHANGES))
def key(request: pytest.FixtureRequest, server: Server, device: Device) -> Path:
    """Where the key of a service with one device was, or where another one is now."""
    path = request.param(server)
    assert isinstance(path, Path)
    return path


def test_it_does_not_start(key: Path, server: Server) -> None:
    before = key.read_bytes() if key.exists() else None
    outcome = command(server, "serve", "--port", 0)
    said = outcome.stderr
    assert outcome.exit_code == 2 and said.count("\n") == 1
    assert "backup" in said and "revoke-devices" in said and str(key) in said and "1 devices" in said
    assert (key.read_bytes() if key.exists() else None) == before


def test_the_devices_can_be_given_up(key: Path, server: Server, person: Person, device: Device) -> None:
    assert command(server, "revoke-devices", say="n\n").exit_code == 1
    given_up = command(server, "revoke-devices", "--yes", "--json")
    assert given_up.stdout == '{"revoked": 1}\n'
    assert_problem(device.open_session(), 401, 1020)
    secure_keys(server.services)
    assert server.services.settings.effective_wrapping_key_file.exists()
    anew = server.device(person)
    assert anew.pinned["key_id"] != device.pinned["key_id"]
    server.run(person, anew)
    envelope = anew.poll().json()
    assert envelope["key_id"] == anew.pinned["key_id"]


def test_revoking_spares_devices_that_trust_the_key(server: Server, person: Person, device: Device) -> None:
    assert "0 devices" in command(server, "revoke-devices", "--yes").stdout
    assert device.open_session().status_code == 200


def test_devices_that_have_the_trust_document_outlive_a_lost_wrapping_key(server: Server, device: Device) -> None:
    """The root key certifies another signing key, and they believe that."""
    device.trust = 1
    assert device.poll().status_code == 204
    server.services.settings.effective_wrapping_key_file.unlink()
    with pytest.raises(KeyNotTrusted):
        secure_keys(server.services)
    assert "0 devices" in command(server, "revoke-devices", "--yes").stdout
    secure_keys(server.services)
    assert device.poll().headers["pock-trust-version"] == "2"


def test_everything_can_begin_anew(server: Server, person: Person, device: Device) -> None:
    """Even where the key file of before trust documents still lies about."""
    put_back_in_time(server)
    secure_keys(server.services)
    assert "1 devices" in command(server, "revoke-devices", "--all", "--yes").stdout
    secure_keys(server.services)
    assert server.device(person).pinned["key_id"] != device.pinned["key_id"]


def test_a_host_without_the_wrapping_key_makes_none(server: Server) -> None:
    """Even before the first device: other hosts may be using the keys in the database."""
    server.services.settings.effective_wrapping_key_file.unlink()
    with pytest.raises(KeyNotTrusted, match=r"wrapping\.key is gone"):
        secure_keys(server.services)
    assert not server.services.settings.effective_wrapping_key_file.exists()


def test_devices_of_before_keys_were_noted(server: Server, device: Device) -> None:
    """They believe the key that is there; from then on, no other."""
    path = put_back_in_time(server)
    with server.services.database.engine.begin() as connection:
        connection.execute(text("UPDATE devices SET signing_key_id = NULL"))
    secure_keys(server.services)
    with server.services.database.engine.begin() as connection:
        connection.execute(text("DELETE FROM trust_documents"))
        connection.execute(text("DELETE FROM signing_keys"))
    replace_signing(path)
    with pytest.raises(KeyNotTrusted, match="1 devices"):
        secure_keys(server.services)


def test_a_service_of_before_trust_documents_is_taken_over(server: Server, person: Person, device: Device) -> None:
    """Its devices go on getting work signed by the key that they pinned."""
    put_back_in_time(server)
    secure_keys(server.services)
    server.run(person, device)
    assert device.poll().json()["key_id"] == device.pinned["key_id"]
    document = server.client.get("/v1/trust").json()
    assert server.device(person).pinned["trust"] == document


def test_a_new_service_makes_its_keys(start_server: ServerFactory) -> None:
    server = start_server()
    folder = server.services.settings.data_dir / "keys"
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {
        "wrapping.key": 0o600,
        "root.pem": 0o600,
    }
    with server.services.database.read() as session:
        row = session.execute(text("SELECT key_id, public_key, wrapped FROM signing_keys")).one()
        raw = server.services.keys.current(session).signer.raw()
    assert row.key_id == key_id_of(row.public_key)
    assert raw not in base64.b64decode(row.wrapped)
    assert server.services.keys.wrapping.unwrap(row.wrapped, row.key_id).raw() == raw


def test_a_database_of_before_the_migration(start_server: ServerFactory) -> None:
    server = start_server()
    with server.services.database.engine.begin() as connection:
        connection.execute(text("ALTER TABLE devices DROP COLUMN trust_version"))
    server.services.settings.effective_wrapping_key_file.unlink()
    secure_keys(server.services)
    assert not server.services.settings.effective_wrapping_key_file.exists()


@pytest.mark.parametrize("engine_name", ["postgresql"], indirect=True)
def test_processes_that_start_together_make_one_document(tmp_path: Path, databases: Databases) -> None:
    settings = Settings(data_dir=tmp_path, database_url=databases.make(tmp_path))
    starters = [make_services(settings) for _ in range(6)]
    with ThreadPoolExecutor(len(starters)) as pool:
        list(pool.map(secure_keys, starters))
    with starters[0].database.read() as session:
        assert [row.version for row in session.scalars(select(TrustDocumentRecord))] == [1]
    for services in starters:
        services.database.engine.dispose()


def test_processes_that_renew_together_make_one_document(server: Server) -> None:
    server.clock.advance(300 * 86400)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(renew, [server.services] * 6))
    with server.services.database.read() as session:
        query = select(TrustDocumentRecord.version).order_by(TrustDocumentRecord.version)
        assert list(session.scalars(query)) == [1, 2]
