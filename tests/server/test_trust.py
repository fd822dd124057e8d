"""A service never starts under a signing key that its fleet does not trust."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text
from typer.testing import CliRunner

from pock_server.cli import app
from pock_server.devices.trust import KeyNotTrusted, secure_key
from pock_server.signing import Signer
from tests.server.conftest import ServerFactory
from tests.server.harness import Device, Person, Server, assert_problem


def replace(path: Path) -> None:
    path.unlink()
    Signer(path).create()


CHANGES: dict[str, Callable[[Path], None]] = {"lost": Path.unlink, "replaced": replace}


@pytest.fixture(params=CHANGES.values(), ids=CHANGES)
def key(request: pytest.FixtureRequest, server: Server, device: Device) -> Path:
    """Where the key of a service with one device was, or where another one is now."""
    path = server.services.signer.path
    request.param(path)
    return path


def serve(folder: Path) -> tuple[int, str]:
    outcome = CliRunner().invoke(app, ["serve", "--data-dir", str(folder), "--port", "0"])
    return outcome.exit_code, outcome.stderr


def test_it_does_not_start(key: Path, server: Server) -> None:
    before = key.read_bytes() if key.exists() else None
    status, said = serve(server.services.settings.data_dir)
    assert status == 2 and said.count("\n") == 1
    assert "backup" in said and "revoke-devices" in said and str(key) in said
    assert (key.read_bytes() if key.exists() else None) == before


def test_the_devices_can_be_given_up(key: Path, server: Server, person: Person, device: Device) -> None:
    folder = ["--data-dir", str(server.services.settings.data_dir)]
    refused = CliRunner().invoke(app, ["revoke-devices", *folder], input="n\n")
    assert refused.exit_code == 1
    given_up = CliRunner().invoke(app, ["revoke-devices", "--yes", "--json", *folder])
    assert given_up.stdout == '{"revoked": 1}\n'
    assert_problem(device.open_session(), 401, 1020)
    secure_key(server.services)
    assert key.exists()


def test_revoking_spares_devices_that_trust_the_key(server: Server, person: Person, device: Device) -> None:
    folder = str(server.services.settings.data_dir)
    assert "0 devices" in CliRunner().invoke(app, ["revoke-devices", "--yes", "--data-dir", folder]).stdout
    assert device.open_session().status_code == 200


def test_devices_of_before_keys_were_noted(server: Server, device: Device) -> None:
    """They trust the key that is there; from then on, no other."""
    with server.services.database.engine.begin() as connection:
        connection.execute(text("UPDATE devices SET signing_key_id = NULL"))
    secure_key(server.services)
    replace(server.services.signer.path)
    vars(server.services.signer).pop("private_key", None)
    with pytest.raises(KeyNotTrusted, match="1 devices"):
        secure_key(server.services)


def test_a_service_without_devices_makes_a_key(start_server: ServerFactory) -> None:
    server = start_server()
    server.services.signer.path.unlink()
    secure_key(server.services)
    assert server.services.signer.path.exists()


def test_a_database_of_before_the_migration(start_server: ServerFactory) -> None:
    server = start_server()
    with server.services.database.engine.begin() as connection:
        connection.execute(text("ALTER TABLE devices DROP COLUMN signing_key_id"))
    server.services.signer.path.unlink()
    secure_key(server.services)
    assert server.services.signer.path.exists()
