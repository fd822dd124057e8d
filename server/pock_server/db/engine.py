"""Makes the SQLAlchemy engine; the database URL alone decides between SQLite and PostgreSQL."""

import sqlite3
import time
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, ExceptionContext, make_url
from sqlalchemy.exc import ArgumentError, DisconnectionError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from pock_server import json_texts
from pock_server.settings import Settings, UnusableSetting

BEGIN = "pock_begin"
"""Execution option: how SQLite starts the transaction (`DEFERRED` or `IMMEDIATE`); other databases ignore it."""

_POSTGRES = frozenset({"postgres", "postgresql"})
_CONNECT_SECONDS = 5
_TRUSTED_SECONDS = 1.0
"""A connection that was used so short a time ago is taken to live."""
_JSON: dict[str, Any] = {"json_serializer": json_texts.write, "json_deserializer": json_texts.read}
# A network that was cut is noticed within about half a minute, by waiting reads and by writes.
_NETWORK = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4, "tcp_user_timeout": 30_000}


def database_url(settings: Settings) -> URL:
    """The configured database as SQLAlchemy names it: people write `postgresql://`, its driver is psycopg 3.

    Raises `UnusableSetting` if the setting names none that the service runs on.
    """
    try:
        url = make_url(settings.effective_database_url)
    except (ArgumentError, ValueError):  # their texts may have the password
        url = None
    if url is None or url.get_backend_name() not in {*_POSTGRES, "sqlite"} or _is_memory(url):
        raise UnusableSetting(
            "POCK_DATABASE_URL names no database that the service runs on: write postgresql://user:password@host/name, "
            "with signs like @ and / of the password percent-encoded, or leave it out for SQLite"
        )
    return url.set(drivername="postgresql+psycopg" if url.get_backend_name() in _POSTGRES else "sqlite")


def _is_memory(url: URL) -> bool:
    """A SQLite that each connection would have another one of."""
    return url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:")


def missing_file(settings: Settings) -> Path | None:
    """The file of an embedded database that nobody has made yet: whoever connects makes it."""
    url = database_url(settings)
    file = Path(url.database or "")
    return None if url.get_backend_name() != "sqlite" or file.exists() else file


def make_engine(settings: Settings) -> Engine:
    """An engine for the configured database; makes the data folder if the embedded one is used.

    Raises `UnusableSetting`.
    """
    url = database_url(settings)
    if url.get_backend_name() == "sqlite":
        try:
            settings.data_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnusableSetting.place("POCK_DATA_DIR", settings.data_dir, error.strerror or str(error)) from None
        # the connection that was used last comes first: each one keeps up to 4 MiB of pages and prepared statements
        engine = create_engine(url, pool_size=20, max_overflow=40, pool_use_lifo=True, hide_parameters=True, **_JSON)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    engine = create_engine(
        url,
        pool_size=settings.database_connections,
        max_overflow=0,
        pool_timeout=settings.database_timeout_seconds,
        hide_parameters=True,
        connect_args=_connect_arguments(settings),
        **_JSON,
    )
    event.listen(engine, "checkin", _note_use)
    event.listen(engine, "checkout", _ask_whether_it_lives)
    event.listen(engine, "handle_error", _as_cut, retval=True)
    return engine


def for_reading(engine: Engine) -> Engine:
    """The same connections without BEGIN and ROLLBACK around queries: on PostgreSQL each of them is a round trip, and
    with READ COMMITTED they change nothing that a reader sees."""
    return engine.execution_options(isolation_level="AUTOCOMMIT") if engine.dialect.name == "postgresql" else engine


def _note_use(_connection: Any, record: ConnectionPoolEntry) -> None:
    record.info["used"] = time.monotonic()


def _ask_whether_it_lives(connection: Any, record: ConnectionPoolEntry, _proxy: Any) -> None:
    """Ask the server once after a pause, not before each request: that would be a round trip more for each."""
    if time.monotonic() - record.info.get("used", time.monotonic()) < _TRUSTED_SECONDS:
        return
    try:
        connection.execute("SELECT 1")
        connection.rollback()
    except psycopg.OperationalError as error:
        raise DisconnectionError from error


def _as_cut(context: ExceptionContext) -> BaseException | None:
    """The server has ended a transaction that this process, short of processor time, left idle for too long. psycopg
    counts that among errors of the database's inside; like any cut it is no fault of the request, and may be tried
    again."""
    error = context.original_exception
    if not isinstance(error, psycopg.errors.IdleInTransactionSessionTimeout):
        return None
    context.is_disconnect = True
    return OperationalError(
        context.statement, context.parameters, error, hide_parameters=True, connection_invalidated=True
    )


def is_postgres(settings: Settings) -> bool:
    """Whether several processes can share the database."""
    return database_url(settings).get_backend_name() == "postgresql"


def connection_string(settings: Settings) -> dict[str, Any]:
    """What psycopg connects with, for a connection outside of the pool: one that listens, or holds a lock."""
    url = database_url(settings).set(drivername="postgresql")
    return {"conninfo": url.render_as_string(hide_password=False), **_connect_arguments(settings)}


def _connect_arguments(settings: Settings) -> dict[str, Any]:
    return {"connect_timeout": _CONNECT_SECONDS, "options": _limits(settings), **_NETWORK}


def _limits(settings: Settings) -> str:
    """Session settings of PostgreSQL: nothing waits without end, be it for a lock or for a process that hangs."""
    milliseconds = int(settings.database_timeout_seconds * 1000)
    names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    return " ".join(f"-c {name}={milliseconds}" for name in names)


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    # The driver must not start transactions on its own: a read that becomes a write would then fail at once with
    # SQLITE_BUSY instead of waiting its turn (`_begin_sqlite` starts them).
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "busy_timeout=15000", "foreign_keys=ON", "synchronous=NORMAL"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(f"BEGIN {connection.get_execution_options().get(BEGIN, 'DEFERRED')}")
