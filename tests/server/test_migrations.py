"""Migrations make exactly the tables that the code expects, on empty databases and on ones with data."""

from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, inspect, text

from pock_server.db.engine import make_engine
from pock_server.db.registry import METADATA
from pock_server.migrations.runner import current_revision, head_revision, upgrade
from pock_server.settings import Settings
from tests.server.conftest import ServerFactory
from tests.server.harness import Server, assert_problem

TIME = "2030-01-01 00:00:00.000000"


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return make_engine(Settings(data_dir=tmp_path))


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
    upgrade(engine)
    assert current_revision(engine) == head_revision()
    with engine.connect() as connection:
        assert connection.execute(text("SELECT name, size FROM models")).all() == [("net", 5)]
        assert connection.execute(text("SELECT state FROM builds")).all() == [("queued",)]
    upgrade(engine)


def test_nothing_but_migrations_makes_tables(start_server: ServerFactory) -> None:
    server = start_server()
    path = server.services.settings.data_dir / "empty"
    fresh = make_engine(Settings(data_dir=path))
    assert inspect(fresh).get_table_names() == []


def test_readyz_wants_the_newest_revision(server: Server) -> None:
    assert server.client.get("/readyz").json()["status"] == "ok"
    with server.services.database.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0002'"))
    answer = server.client.get("/readyz")
    assert_problem(answer, 503, 1024)
    assert "pock-server migrate" in answer.json()["detail"]
    assert server.client.get("/healthz").json() == {"status": "ok"}


def test_sqlite_is_set_up_for_many_writers(engine: Engine) -> None:
    with engine.connect() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert int(connection.execute(text("PRAGMA busy_timeout")).scalar_one()) >= 5000
        assert connection.execute(text("PRAGMA foreign_keys")).scalar() == 1
