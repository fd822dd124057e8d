"""Migrations make exactly the tables that the code expects, on empty databases and on ones with data."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import OperationalError, TimeoutError

from pock_server.app import create_app
from pock_server.db.engine import database_url, make_engine
from pock_server.db.registry import METADATA
from pock_server.migrations.runner import current_revision, downgrade, head_revision, upgrade
from pock_server.settings import Settings
from tests.server.databases import Databases
from tests.server.harness import Server, assert_problem

TIME = "2030-01-01 00:00:00.000000"


@pytest.fixture
def settings(tmp_path: Path, databases: Databases) -> Settings:
    """Settings that name an empty database."""
    return Settings(data_dir=tmp_path, database_url=databases.make_empty(tmp_path))


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    made = make_engine(settings)
    yield made
    made.dispose()


def test_migrated_database_is_what_the_tables_say(engine: Engine) -> None:
    upgrade(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []


def test_each_migration_keeps_the_data(engine: Engine) -> None:
    upgrade(engine, "0001")
    with engine.begin() as connection:
        connection.execute(text(f"INSERT INTO workspaces VALUES ('w', 'team', '{TIME}')"))
        connection.execute(
            text(
                "INSERT INTO models (id, workspace_id, created_at, name, digest, size, external) "
                f"VALUES ('m', 'w', '{TIME}', 'net', '{'0' * 64}', 5, '{{}}')"
            )
        )
    upgrade(engine, "0002")
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO builds (id, workspace_id, created_at, key, model_id, model_name, name, target, threads, "
                "recipe, compiler_version, state, attempt) VALUES "
                f"('b', 'w', '{TIME}', 'k', 'm', 'net', 'net', 'host', 1, '{{}}', '1', 'queued', 0)"
            )
        )
    upgrade(engine, "0016")
    with engine.begin() as connection:
        _add_devices(connection)
    upgrade(engine, "0017")
    with engine.begin() as connection:
        _add_models(connection)
    upgrade(engine)
    assert current_revision(engine) == head_revision()
    with engine.connect() as connection:
        versions = connection.execute(text("SELECT id, version FROM models ORDER BY id"))
        assert versions.all() == [("a", 2), ("b", 1), ("c", 1), ("m", 1)]
        names = "SELECT kind, name, last_version FROM names WHERE workspace_id = 'w' ORDER BY kind, name"
        assert connection.execute(text(names)).all() == [
            ("build", "net", 1),
            ("model", "net", 2),
            ("model", "other", 1),
        ]
        chosen_by = connection.execute(text("SELECT agent_rank, arch, memory_bytes, cores FROM devices ORDER BY id"))
        assert chosen_by.all() == [(1_000_002_000_003, "aarch64", 5, 4), (None, None, None, None)]
        assert connection.execute(text("SELECT name, size FROM models WHERE id = 'm'")).all() == [("net", 5)]
        assert connection.execute(text("SELECT state FROM builds")).all() == [("queued",)]
    upgrade(engine)


def _add_devices(connection: Connection) -> None:
    """One whose agent reports what it should, and one that reports anything."""
    connection.execute(
        text(
            "INSERT INTO enrolment_tokens (id, workspace_id, created_at, pool, secret_hash, expires_at) "
            f"VALUES ('t', 'w', '{TIME}', 'p', 'h', '{TIME}')"
        )
    )
    good = {"memory_bytes": 5, "cpus": 4, "machine": "aarch64"}
    odd = {"memory_bytes": 2**64 - 1, "cpus": True, "machine": ["x"]}
    for name, facts, version in (("d1", good, "1.2.3"), ("d2", odd, "unknown")):
        connection.execute(
            text(
                "INSERT INTO devices (id, workspace_id, created_at, name, pool, status, public_key, facts, "
                "agent_version, session_counter, work_counter, token_id) VALUES "
                f"(:id, 'w', '{TIME}', 'board', 'p', 'active', 'k', :facts, :version, 0, 0, 't')"
            ),
            {"id": name, "facts": json.dumps(facts), "version": version},
        )


def _add_models(connection: Connection) -> None:
    """One made later of the same name, with an id that sorts before; another name; and another workspace."""
    connection.execute(text(f"INSERT INTO workspaces (id, name, created_at) VALUES ('v', 'others', '{TIME}')"))
    later = TIME.replace("2030", "2031")
    for row_id, home, name, moment in (("a", "w", "net", later), ("b", "w", "other", TIME), ("c", "v", "net", TIME)):
        connection.execute(
            text(
                "INSERT INTO models (id, workspace_id, created_at, name, digest, size, external) "
                f"VALUES (:id, :home, '{moment}', :name, '{'0' * 64}', 5, '{{}}')"
            ),
            {"id": row_id, "home": home, "name": name},
        )


def test_nothing_but_migrations_makes_tables(settings: Settings, engine: Engine) -> None:
    create_app(settings)
    assert inspect(engine).get_table_names() == []


def test_each_migration_can_be_undone(engine: Engine) -> None:
    upgrade(engine)
    while current_revision(engine) is not None:
        downgrade(engine, "-1")
    assert set(inspect(engine).get_table_names()) == {"alembic_version"}
    upgrade(engine)
    assert current_revision(engine) == head_revision()


def test_searches_are_undone_with_their_builds(engine: Engine) -> None:
    """An older service would take such a build for one of its own."""
    upgrade(engine)
    home = f"'w', '{TIME}'"
    build = "id, workspace_id, created_at, version, kind, key, model_id, model_name, name, target, threads, recipe, "
    same = "'k', 'm', 'n', 'n', 'host', 1, '{}', '1', 'queued', 0"
    rows = {
        "workspaces (id, created_at, name)": f"({home}, 'team')",
        "models (id, workspace_id, created_at, name, digest, size, external)": f"('m', {home}, 'n', 'd', 5, '{{}}')",
        "datasets (id, workspace_id, created_at, name, digest, size, samples, tensors)": (
            f"('d', {home}, 'n', 'd', 5, 1, '[]')"
        ),
        f"builds ({build} compiler_version, state, attempt)": (
            f"('s', {home}, -1, 'search', {same}), ('b', {home}, 1, 'model', {same.replace('k', 'l')})"
        ),
        "searches (id, workspace_id, created_at, model_id, dataset_id, name, options)": (
            f"('s', {home}, 'm', 'd', 'n', '{{}}')"
        ),
        "recipes (id, workspace_id, created_at, name, version, digest, text, content, model_id, search_id)": (
            f"('r', {home}, 'n', 1, 'd', '', '{{}}', 'm', 's')"
        ),
        "events (subject_id, workspace_id, created_at, seq, kind, data)": f"('s', {home}, 1, 'state', '{{}}')",
    }
    with engine.begin() as connection:
        for table, values in rows.items():
            connection.execute(text(f"INSERT INTO {table} VALUES {values}"))
    downgrade(engine, "0033")
    with engine.connect() as connection:
        assert connection.execute(text("SELECT id FROM builds")).all() == [("b",)]
        assert connection.execute(text("SELECT count(*) FROM events")).scalar() == 0
        assert connection.execute(text("SELECT id FROM recipes")).all() == [("r",)]
    upgrade(engine)


def test_processes_that_start_together_migrate_once(settings: Settings) -> None:
    together = threading.Barrier(4)

    def start(_: int) -> str | None:
        engine = make_engine(settings)
        with engine.connect():
            together.wait()
        upgrade(engine)
        found = current_revision(engine)
        engine.dispose()
        return found

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(start, range(4))) == {head_revision()}


def test_readyz_wants_the_newest_revision(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pock_server.health.probe._KEEP_SECONDS", 0)
    assert server.client.get("/readyz").json()["status"] == "ok"
    with server.services.database.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0002'"))
    answer = server.client.get("/readyz")
    assert_problem(answer, 503, 1024)
    assert "pock-server migrate" in answer.json()["detail"]
    assert server.client.get("/healthz").json() == {"status": "ok"}


@pytest.mark.parametrize("engine_name", ["postgresql"], indirect=True)
def test_postgresql_is_never_waited_for_without_end(settings: Settings) -> None:
    limited = settings.model_copy(update={"database_connections": 2, "database_timeout_seconds": 1.0})
    engine = make_engine(limited)
    with engine.connect() as first:
        for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
            assert first.execute(text(f"SHOW {name}")).scalar() == "1s"
        first.commit()
        with engine.connect(), pytest.raises(TimeoutError):
            engine.connect()
        with pytest.raises(OperationalError, match="statement timeout"):
            first.execute(text("SELECT pg_sleep(60)"))
    engine.dispose()


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_urls_as_people_write_them(scheme: str) -> None:
    url = database_url(Settings(database_url=f"{scheme}://me:p%40ss@db.example:5433/pock?sslmode=require"))
    assert (url.drivername, url.password, url.port) == ("postgresql+psycopg", "p@ss", 5433)
    assert dict(url.query) == {"sslmode": "require"}


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
def test_sqlite_is_set_up_for_many_writers(engine: Engine) -> None:
    with engine.connect() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert int(connection.execute(text("PRAGMA busy_timeout")).scalar_one()) >= 5000
        assert connection.execute(text("PRAGMA foreign_keys")).scalar() == 1
