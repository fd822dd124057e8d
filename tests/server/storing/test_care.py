"""What somebody has to see to in time is shown: the end of the trust document, and the age of the last backup."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from pock_server.backup.history import last_backup, note_backup
from pock_server.doctor import Finding, examine
from pock_server.health.care import CareCollector
from pock_server.trust.chain import latest
from tests.server.harness import Person, Server, command


def metrics(server: Server) -> dict[str, float]:
    """As somebody sees them who has not asked for a while."""
    families = CareCollector(server.services.database).collect()
    return {sample.name: sample.value for family in families for sample in family.samples}


def finding(server: Server, item: str) -> Finding:
    return next(found for found in examine(server.services.settings, {}) if found.item == item)


def note(server: Server, age: timedelta) -> None:
    with server.services.database.write() as unit:
        note_backup(unit, "x.tar", 0, 0, datetime.now(UTC) - age)


def test_a_backup_is_known_when_it_is_whole(server: Server, person: Person, tmp_path: Path) -> None:
    person.upload(b"something")
    assert metrics(server)["pock_backup_last_success_timestamp_seconds"] == 0
    missing = command(server, "backup", str(tmp_path / "nowhere" / "x.tar"))
    assert missing.exit_code == 2
    assert metrics(server)["pock_backup_last_success_timestamp_seconds"] == 0
    done = command(server, "backup", str(tmp_path / "x.tar"))
    assert done.exit_code == 0, done.output
    with server.services.database.read() as session:
        made_at = last_backup(session)
    assert made_at is not None
    assert metrics(server)["pock_backup_last_success_timestamp_seconds"] == made_at.timestamp()
    told = command(server, "audit", "--json").stdout
    assert '"backup.make"' in told and '"x.tar"' in told and '"command_line"' in told


def test_the_doctor_warns_of_old_backups(server: Server) -> None:
    assert finding(server, "backup").outcome == "warn" and "none was made" in finding(server, "backup").says
    note(server, timedelta(days=5))
    assert finding(server, "backup") == Finding(
        "backup", finding(server, "backup").outcome, "the last one is 5 days old"
    )
    assert finding(server, "backup").outcome == "warn"
    note(server, timedelta(hours=1))
    note(server, timedelta(days=3))  # the newest counts, not the last that was written
    assert finding(server, "backup").outcome == "ok"


@pytest.mark.parametrize(("days", "outcome"), [(200, "ok"), (60, "warn"), (-1, "fail")])
def test_the_end_of_the_trust_document_is_shown(
    server: Server, monkeypatch: pytest.MonkeyPatch, days: int, outcome: str
) -> None:
    with server.services.database.read() as session:
        trust = latest(session)
    assert trust is not None
    assert metrics(server)["pock_trust_end_timestamp_seconds"] == trust.expires_at.timestamp()

    now = trust.expires_at - timedelta(days=days)
    monkeypatch.setattr("pock_server.doctor.trust.datetime", SimpleNamespace(now=lambda zone: now))
    assert finding(server, "trust document").outcome == outcome
    assert "rotate-keys" in finding(server, "trust document").says or outcome == "ok"
