"""The engine of the service's database: cuts of a connection are told as what they are."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from sqlalchemy import text

from pock_server.db.engine import make_engine
from pock_server.http.problems import DATABASE_DOWN
from pock_server.settings import Settings
from tests.server.databases import PostgresDatabases


def test_a_transaction_that_was_left_idle_is_a_cut(postgres_databases: PostgresDatabases, tmp_path: Path) -> None:
    """psycopg calls it an internal error; the request may be repeated, and the next one has a connection that lives."""
    settings = Settings(data_dir=tmp_path, database_url=postgres_databases.make(tmp_path), database_timeout_seconds=1)
    engine = make_engine(settings)
    try:
        with pytest.raises(DATABASE_DOWN, match="idle-in-transaction timeout"), engine.begin() as connection:
            connection.execute(text("SELECT 1"))
            time.sleep(1.5)
            connection.execute(text("SELECT 2"))
        with engine.begin() as connection:
            assert connection.scalar(text("SELECT 3")) == 3
    finally:
        engine.dispose()
