"""Settings: where they come from, and what is said about those that cannot be used."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic_settings import SettingsError

from pock_server.settings import Settings


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that settings are read from."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    monkeypatch.setenv("POCK_SECRETS_DIR", str(folder))
    return folder


def put(folder: Path, name: str, text: str, mode: int = 0o400) -> None:
    """A file that this user alone may read."""
    path = folder / name
    path.write_text(text)
    path.chmod(mode)


def test_every_setting_may_lie_in_a_file(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(secrets, "pock_store_secret_key", "open sesame\n")
    put(secrets, "POCK_PARALLEL_BUILDS", " 3\r\n")
    put(secrets, "pock_worker_command", '["true", "x"]')
    put(secrets, "postgres_password", "somebody else's")
    settings = Settings()
    assert settings.store_secret_key == "open sesame"
    assert "sesame" not in repr(settings)
    assert settings.parallel_builds == 3
    assert settings.worker_command == ("true", "x")
    monkeypatch.setenv("POCK_STORE_SECRET_KEY", "of the environment")
    assert Settings().store_secret_key == "of the environment"
    assert Settings(store_secret_key="of the caller").store_secret_key == "of the caller"


@pytest.mark.parametrize("name", ["database_url", "broker_url"])
def test_no_password_of_an_address_is_shown(name: str) -> None:
    scheme = "redis" if name == "broker_url" else "postgresql"
    assert "sesame" not in repr(Settings.model_validate({name: f"{scheme}://me:open-sesame@host/0"}))


def test_without_the_folder_no_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "pock_parallel_builds", "3")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POCK_SECRETS_DIR", "")
    assert Settings().parallel_builds == 1
    assert Settings(secrets_dir=str(tmp_path)).parallel_builds == 3


def test_a_kubernetes_volume_is_read(secrets: Path) -> None:
    (secrets / "..2026_11_22").mkdir()
    put(secrets / "..2026_11_22", "pock_store_secret_key", "open sesame")
    (secrets / "..data").symlink_to("..2026_11_22")
    (secrets / "pock_store_secret_key").symlink_to("..data/pock_store_secret_key")
    assert Settings().store_secret_key == "open sesame"


def test_a_folder_that_is_missing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POCK_SECRETS_DIR", str(tmp_path / "missing"))
    with pytest.raises(SettingsError, match="POCK_SECRETS_DIR is .*missing, which cannot be used"):
        Settings()
    put(tmp_path, "file", "x")
    with pytest.raises(SettingsError, match="POCK_SECRETS_DIR is .*file, which cannot be used"):
        Settings(secrets_dir=str(tmp_path / "file"))


@pytest.mark.parametrize("text", ["", "x" * 70_000])
def test_a_file_of_no_use_is_refused(secrets: Path, text: str) -> None:
    put(secrets, "pock_database_url", text)
    with pytest.raises(SettingsError, match=f"pock_database_url has {len(text)} bytes, where 1 to 65536 are allowed"):
        Settings()


def test_what_is_no_file_of_this_folder_is_refused(secrets: Path, tmp_path: Path) -> None:
    put(tmp_path, "outside", "postgresql://elsewhere/")
    (secrets / "pock_database_url").symlink_to(tmp_path / "outside")
    with pytest.raises(SettingsError, match="outside of"):
        Settings()
    (secrets / "pock_database_url").unlink()
    (secrets / "pock_database_url").mkdir()
    with pytest.raises(SettingsError, match="found a "):
        Settings()
    (secrets / "pock_database_url").rmdir()
    (secrets / "pock_database_url").symlink_to("pock_database_url")
    with pytest.raises(SettingsError, match="POCK_SECRETS_DIR"):
        Settings()
    (secrets / "pock_database_url").unlink()
    (secrets / "pock_database_url").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="POCK_SECRETS_DIR"):
        Settings()


def test_files_that_others_read_or_nobody_are_warned_of(secrets: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(secrets, "pock_store_secret_key", "open sesame", mode=0o444)
    put(secrets, "pock_store_acess_key", "typo")
    with caplog.at_level(logging.WARNING):
        assert Settings().store_secret_key == "open sesame"
    assert "every user of this machine may read" in caplog.text
    assert "names no setting and is not read; is pock_store_access_key meant?" in caplog.text
    assert "sesame" not in caplog.text


@pytest.mark.parametrize(
    ("variables", "files", "said"),
    [
        ({"POCK_SECRETS_DIR": "/nowhere"}, {}, "POCK_SECRETS_DIR is /nowhere, which cannot be used"),
        ({"POCK_PARALLEL_BUILDS": "many"}, {}, "POCK_PARALLEL_BUILDS: Input should be a valid integer"),
        ({}, {"pock_database_connections": "hunter2"}, "POCK_DATABASE_CONNECTIONS: Input should be a valid integer"),
    ],
)
def test_commands_refuse_with_a_sentence(
    secrets: Path, variables: dict[str, str], files: dict[str, str], said: str
) -> None:
    for name, text in files.items():
        put(secrets, name, text)
    command = [sys.executable, "-m", "pock_server.cli", "migrate"]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("pock-server: ")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr
