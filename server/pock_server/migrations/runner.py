"""Applies migrations and says where a database stands."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

from pock_server.db.engine import BEGIN
from pock_server.db.locks import Lock, hold


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Bring the database up to a revision; of processes that start together one does it, and the others wait."""
    with _alone(engine) as connection:
        command.upgrade(_config(connection), revision)


def downgrade(engine: Engine, revision: str) -> None:
    """Take the database back to a revision; `base` is the empty database."""
    with _alone(engine) as connection:
        command.downgrade(_config(connection), revision)


@contextmanager
def _alone(engine: Engine) -> Iterator[Connection]:
    """A transaction that no other migration runs beside. It may take longer than a request's."""
    with engine.execution_options(**{BEGIN: "IMMEDIATE"}).begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            connection.execute(text("SET LOCAL lock_timeout = 0"))
            connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        hold(connection, Lock.MIGRATE)
        yield connection


def head_revision() -> str:
    """The newest revision that this code knows."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None
    return head


def current_revision(engine: Engine) -> str | None:
    """The revision that the database is at; None for an empty one."""
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    return config
