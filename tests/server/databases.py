"""Empty, migrated databases for tests, on both engines that the service runs on."""

import contextlib
import ctypes
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import create_engine
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import LRUCache

from demo.processes import free_port
from pock_server.db.engine import make_engine
from pock_server.migrations.runner import upgrade
from pock_server.settings import Settings

_TEMPLATE = "pock_template"
_FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
    "jit": "off",
    "shared_buffers": "32MB",
    "max_connections": "300",
}
"""Nothing of a test has to survive a power cut."""
_USES = 25
"""Afterwards a database has too many dead rows."""
_SHAPE = """
    SELECT count(*), sum(attrelid::bigint), count(*) FILTER (WHERE attisdropped), sum(atttypid::bigint),
           (SELECT sum(oid::bigint) FROM pg_constraint), (SELECT min(version_num) FROM alembic_version)
    FROM pg_attribute WHERE attrelid >= 16384
"""
"""Another one after each change of tables, columns, indices or constraints."""
_DISCONNECT = """
    SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_EMPTY = """
    DO $$ DECLARE name text; BEGIN
        SET LOCAL session_replication_role = replica;  -- no foreign keys, so in any order
        FOR name IN SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
                    AND relname <> 'alembic_version' LOOP
            EXECUTE format('DELETE FROM %I', name);
        END LOOP;
    END $$
"""


class Databases(Protocol):
    """Makes databases of one engine."""

    def make(self, folder: Path) -> str:
        """A new migrated database for a server with the data folder `folder`; the `database_url` of its settings."""

    def make_empty(self, folder: Path) -> str:
        """The same, but no migration has seen the database."""

    def give_back(self, url: str) -> None:
        """Nobody needs what `make` made any more: it may be emptied and made again."""

    def drop_all(self) -> None:
        """Remove what was made."""


@dataclass
class SqliteDatabases:
    """Copies of one migrated file."""

    template: Path

    @classmethod
    def migrated(cls, folder: Path) -> "SqliteDatabases":
        """With a template of its own in `folder`."""
        engine = make_engine(Settings(data_dir=folder))
        upgrade(engine)
        with engine.connect() as connection:
            connection.exec_driver_sql("SELECT 1")
        engine.dispose()
        return cls(folder / "pock.sqlite3")

    def make(self, folder: Path) -> str:
        """A copy in the data folder, where the default looks for it."""
        shutil.copy(self.template, folder / "pock.sqlite3")
        return ""

    def make_empty(self, folder: Path) -> str:
        """A file that is not there yet."""
        return f"sqlite:///{folder / 'empty.sqlite3'}"

    def give_back(self, url: str) -> None:
        """Nothing: a copy costs nothing."""

    def drop_all(self) -> None:
        """Nothing: pytest removes the folders."""


@dataclass
class PostgresServer:
    """A PostgreSQL server of this test session on a free loopback port, with nobody else's data."""

    folder: Path
    binaries: Path
    port: int = 0
    options: dict[str, str] = field(default_factory=lambda: _FAST)
    password: str = field(default_factory=lambda: secrets.token_hex(16))
    process: "subprocess.Popen[bytes] | None" = None

    def url(self, database: str) -> str:
        """How people write where a database is."""
        return f"postgresql://pock:{self.password}@127.0.0.1:{self.port}/{database}"

    def initialize(self) -> None:
        """Make the cluster."""
        self.folder.mkdir(mode=0o700)
        secret = self.folder.with_suffix(".password")
        secret.write_text(self.password)
        _own(self.folder, secret)
        options = ["-U", "pock", "-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8", "--no-sync", "--locale=C"]
        made = subprocess.run(
            [self.binaries / "initdb", "-D", self.folder, *options], capture_output=True, text=True, **_unprivileged()
        )
        assert made.returncode == 0, made.stderr

    def start(self) -> None:
        """Start, or start again on the same port."""
        for _ in range(20):
            self.port = self.port or free_port()
            settings = {
                **self.options,
                "port": self.port,
                "listen_addresses": "127.0.0.1",
                "unix_socket_directories": "",
            }
            options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
            log = (self.folder.parent / "log").open("ab")
            self.process = subprocess.Popen(
                [self.binaries / "postgres", "-D", self.folder, *options],
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent,
                **_unprivileged(),
            )
            log.close()
            if self._answers():
                return
        raise AssertionError((self.folder.parent / "log").read_text()[-2000:])

    def _answers(self) -> bool:
        assert self.process is not None
        while self.process.poll() is None:
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(self.url("postgres"), connect_timeout=2).close()
                return True
            time.sleep(0.05)
        self.port = 0  # somebody took the port meanwhile
        return False

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """End the server; SIGQUIT does not wait for anybody, SIGINT shuts down properly."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(timeout=60)
            self.process = None

    def execute(self, statement: sql.Composed | str) -> None:
        """Run an administrator's statement outside of any transaction."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)


@dataclass
class PostgresDatabases:
    """Copies of one migrated database. A copy takes 20 times as long as emptying one, so they are used again."""

    server: PostgresServer
    made: list[str] = field(default_factory=list)
    _free: list[str] = field(default_factory=list)
    _uses: Counter[str] = field(default_factory=Counter)

    @classmethod
    def migrated(cls, server: PostgresServer) -> "PostgresDatabases":
        """With a template of its own on the server."""
        server.execute(f"CREATE DATABASE {_TEMPLATE}")
        engine = make_engine(Settings(database_url=server.url(_TEMPLATE)))
        upgrade(engine)
        engine.dispose()
        return cls(server)

    @cached_property
    def _shape(self) -> Any:
        with psycopg.connect(self.server.url(_TEMPLATE)) as connection:
            return connection.execute(_SHAPE).fetchone()

    def make(self, folder: Path) -> str:
        """An emptied one, or a copy with a name of its own."""
        name = self._free.pop() if self._free else self._create(_TEMPLATE)
        self._uses[name] += 1
        return self.server.url(name)

    def make_empty(self, folder: Path) -> str:
        """A database without tables."""
        return self.server.url(self._create("template0"))

    def give_back(self, url: str) -> None:
        """Empty it for the next one, unless a test changed its tables."""
        name = url.rpartition("/")[2]
        if name not in self._uses or self._uses[name] >= _USES:
            return
        with contextlib.suppress(psycopg.Error), psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_DISCONNECT)
            if connection.execute(_SHAPE).fetchone() == self._shape:
                connection.execute(_EMPTY)
                self._free.append(name)

    def _create(self, template: str) -> str:
        name = f"test_{secrets.token_hex(6)}"
        self.server.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        self.made.append(name)
        return name

    def drop_all(self) -> None:
        """Remove the copies that are not free, whoever is still connected."""
        for name in set(self.made) - set(self._free):
            self.server.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self.made = list(self._free)


def compile_once(patch: pytest.MonkeyPatch) -> None:
    """Have all engines of this process share the statements that they compiled.

    An engine compiles a statement once. Each test has an engine, and would spend a quarter of its time on compiling.
    """
    for kind in (PGDialect_psycopg, SQLiteDialect_pysqlite):  # they are in the keys of the cache
        patch.setattr(kind, "__hash__", lambda dialect: hash(type(dialect)))
        patch.setattr(kind, "__eq__", lambda dialect, other: type(dialect) is type(other))
    shared = {"compiled_cache": LRUCache[Any, Any](4000)}
    patch.setattr("pock_server.db.engine.create_engine", partial(create_engine, execution_options=shared))


def find_postgres() -> Path | None:
    """The folder of PostgreSQL's programs, the newest if there are several; Debian keeps them off the PATH."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    versions = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    return max(versions, key=lambda path: int(path.parent.name), default=None)


@contextlib.contextmanager
def running_postgres(binaries: Path, options: dict[str, str] | None = None) -> Iterator[PostgresServer]:
    """A server that is gone, with all its files, at the end of the block; quick unless `options` say otherwise."""
    # Not among pytest's folders: those are closed to the user that the server runs as.
    with tempfile.TemporaryDirectory(prefix="pock-postgres-") as folder:
        Path(folder).chmod(0o755)
        server = PostgresServer(Path(folder) / "cluster", binaries, options=_FAST if options is None else options)
        server.initialize()
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _user() -> pwd.struct_passwd | None:
    """Whom to be instead of root, as whom PostgreSQL refuses to run."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _unprivileged() -> dict[str, Any]:
    user = _user()
    return {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _own(*paths: Path) -> None:
    user = _user()
    if user is None:
        return
    for path in paths:
        os.chown(path, user.pw_uid, user.pw_gid)


def _die_with_parent() -> None:
    """Have the kernel end the server when the tests are killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGQUIT)  # PR_SET_PDEATHSIG
