"""Makes the SQLAlchemy engine; the database URL alone decides between SQLite and PostgreSQL."""

import sqlite3
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event

from pock_server.settings import Settings

BEGIN = "pock_begin"
"""Execution option: how SQLite starts the transaction (`DEFERRED` or `IMMEDIATE`); other databases ignore it."""


def make_engine(settings: Settings) -> Engine:
    """An engine for the configured database; makes the data folder if the embedded one is used."""
    url = settings.effective_database_url
    if url.startswith("sqlite"):
        settings.data_dir.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, pool_size=20, max_overflow=40, pool_pre_ping=not url.startswith("sqlite"))
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    # The driver must not start transactions on its own: a read that becomes a write would then fail at once with
    # SQLITE_BUSY instead of waiting its turn (`_begin_sqlite` starts them).
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "busy_timeout=15000", "foreign_keys=ON", "synchronous=NORMAL"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(f"BEGIN {connection.get_execution_options().get(BEGIN, 'DEFERRED')}")
