"""`pock-server doctor` finds what is wrong and says what to do, and nothing where nothing is wrong."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import obstore
import pytest

from pock_server.blobs.opening import open_store
from pock_server.db.engine import make_engine
from pock_server.doctor import Outcome, examine
from pock_server.migrations.runner import downgrade
from pock_server.settings import Settings
from tests.server.conftest import ServerFactory
from tests.server.databases import Databases

COMMAND = (sys.executable, "-m", "pock_server.cli", "doctor")

_FOLDER = {"store_url": "", "store_endpoint": "", "store_access_key": "", "store_secret_key": ""}


@pytest.fixture
def healthy(start_server: ServerFactory, tmp_path: Path) -> Settings:
    """Settings of a service that works."""
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "index.html").write_text("a page")
    return start_server(web_dist=tmp_path / "dist", runner="inprocess", sandbox="auto").services.settings


def found(settings: Settings, environment: dict[str, str] | None = None) -> dict[str, list[tuple[Outcome, str]]]:
    items: dict[str, list[tuple[Outcome, str]]] = {}
    for finding in examine(settings, environment or {}):
        items.setdefault(finding.item, []).append((finding.outcome, finding.says))
    return items


def changed(settings: Settings, **changes: Any) -> Settings:
    return settings.model_copy(update=changes)


def test_nothing_is_wrong_with_a_healthy_service(healthy: Settings) -> None:
    items = found(healthy)
    own = {
        name: outcomes
        for name, outcomes in items.items()
        if name not in ("clock", "open files", "data folder", "backup")
    }
    assert {outcome for outcomes in own.values() for outcome, _ in outcomes} == {Outcome.OK}
    assert {"settings", "database", "migrations", "store", "keys", "compiler", "page", "metrics"} <= set(own)


def test_nothing_is_changed(healthy: Settings, tmp_path: Path) -> None:
    def files() -> list[Path]:  # but those of the service's own children
        return sorted(path for path in tmp_path.rglob("*") if not path.is_relative_to(healthy.effective_work_dir))

    before = files()
    found(healthy)
    assert files() == before
    empty = tmp_path / "empty"
    items = found(changed(healthy, data_dir=empty, database_url="", **_FOLDER))
    assert Outcome.FAIL not in {outcome for outcomes in items.values() for outcome, _ in outcomes}
    assert not empty.exists()
    other = tmp_path / "other.sqlite3"
    items = found(changed(healthy, database_url=f"sqlite:///{other}"))
    assert [outcome for outcome, _ in items["database"]] == [Outcome.WARN] and not other.exists()


def test_settings_that_are_none(healthy: Settings) -> None:
    items = found(healthy, {"POCK_DATABSE_URL": "x", "POCK_ZZZ": "y", "POCK_DATA_DIR": "z", "HOME": "/"})
    says = [text for outcome, text in items["settings"] if outcome is Outcome.WARN]
    assert says[0] == "POCK_DATABSE_URL is no setting; did you mean POCK_DATABASE_URL?"
    assert says[1].startswith("POCK_ZZZ is no setting") and len(says) == 2


@pytest.mark.parametrize(
    "changes,outcome,says",
    [
        ({"lease_seconds": 20.0}, Outcome.WARN, "POCK_LEASE_SECONDS"),
        ({**_FOLDER, "store_access_key": "a"}, Outcome.FAIL, "POCK_STORE_SECRET_KEY"),
        ({**_FOLDER, "store_endpoint": "http://x"}, Outcome.WARN, "POCK_STORE_URL"),
        ({"metrics_port": 9100, "metrics_address": "0.0.0.0"}, Outcome.WARN, "POCK_METRICS_ADDRESS"),
        ({"build_disk_bytes": 1}, Outcome.WARN, "POCK_BUILD_DISK_BYTES"),
    ],
)
def test_settings_that_contradict_each_other(
    changes: dict[str, Any], outcome: Outcome, says: str, healthy: Settings
) -> None:
    assert any(kind is outcome and says in text for kind, text in found(changed(healthy, **changes))["settings"])


def test_a_database_that_is_away_or_behind(healthy: Settings) -> None:
    url = "postgresql://pock:hunter2@127.0.0.1:1/pock"
    [(outcome, says)] = found(changed(healthy, database_url=url))["database"]
    assert outcome is Outcome.FAIL and "POCK_DATABASE_URL" in says and "hunter2" not in says
    engine = make_engine(healthy)
    downgrade(engine, "0002")
    engine.dispose()
    [(outcome, says)] = found(healthy)["migrations"]
    assert outcome is Outcome.FAIL and "0002" in says and "pock-server migrate" in says


def test_too_many_connections_for_the_server(healthy: Settings, databases: Databases) -> None:
    if not healthy.database_url.startswith("postgresql"):
        return
    assert [outcome for outcome, _ in found(healthy)["connections"]] == [Outcome.OK]
    [(outcome, says)] = found(changed(healthy, database_connections=500))["connections"]
    assert outcome is Outcome.FAIL and "POCK_DATABASE_CONNECTIONS" in says
    assert [outcome for outcome, _ in found(healthy)["database's clock"]] == [Outcome.OK]


def test_a_store_that_is_away(healthy: Settings) -> None:
    away = changed(healthy, store_url="file:///proc/nowhere", store_endpoint="")
    [(outcome, says)] = found(away)["store"]
    assert outcome is Outcome.FAIL and says


def test_a_store_that_does_not_do_what_it_should(healthy: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = open_store(healthy).objects
    monkeypatch.setattr(obstore, "get_range", lambda *_, **__: b"something")
    ((outcome, says),) = found(healthy)["store"]
    assert outcome is Outcome.FAIL and "ranges" in says

    def breaks(*_: object) -> None:
        raise OSError("the line is cut")

    monkeypatch.setattr(obstore, "get", breaks)
    ((outcome, says),) = found(healthy)["store"]
    assert outcome is Outcome.FAIL and "not possible to read an object" in says and "the line is cut" in says
    assert not any("doctor-" in each["path"] for page in objects.list() for each in page)


def test_keys_that_others_may_read_and_a_page_that_is_not_there(healthy: Settings, tmp_path: Path) -> None:
    key = healthy.data_dir / "keys" / "a.pem"
    key.parent.mkdir(exist_ok=True)
    key.write_text("private")
    key.chmod(0o644)
    items = found(changed(healthy, web_dist=tmp_path / "nowhere"))
    assert [outcome for outcome, says in items["keys"] if f"chmod 600 {key}" in says] == [Outcome.FAIL]
    assert items["page"][0][0] is Outcome.WARN and "make web" in items["page"][0][1]


def test_the_command(healthy: Settings) -> None:
    environment = {**os.environ, "POCK_DATABASE_URL": healthy.database_url, "POCK_LEASE_SECNDS": "1"}
    options = ("--data-dir", str(healthy.data_dir))
    good = subprocess.run([*COMMAND, *options, "--json"], env=environment, capture_output=True, text=True, timeout=60)
    answer = json.loads(good.stdout)
    assert answer["ok"] == (good.returncode == 0)
    assert {"item": "settings", "outcome": "warn"}.items() <= answer["findings"][0].items()
    broken = {**environment, "POCK_STORE_ACCESS_KEY": "only"}
    bad = subprocess.run([*COMMAND, *options], env=broken, capture_output=True, text=True, timeout=60)
    assert bad.returncode == 1 and "POCK_STORE_SECRET_KEY" in bad.stdout and "Traceback" not in bad.stderr
