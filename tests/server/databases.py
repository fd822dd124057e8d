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
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import psycopg
from psycopg import sql

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


class Databases(Protocol):
    """Makes databases of one engine."""

    def make(self, folder: Path) -> str:
        """A new migrated database for a server with the data folder `folder`; the `database_url` of its settings."""

    def make_empty(self, folder: Path) -> str:
        """The same, but no migration has seen the database."""

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
    """Copies of one migrated database."""

    server: PostgresServer
    made: list[str] = field(default_factory=list)

    @classmethod
    def migrated(cls, server: PostgresServer) -> "PostgresDatabases":
        """With a template of its own on the server."""
        server.execute(f"CREATE DATABASE {_TEMPLATE}")
        engine = make_engine(Settings(database_url=server.url(_TEMPLATE)))
        upgrade(engine)
        engine.dispose()
        return cls(server)

    def make(self, folder: Path) -> str:
        """A copy with a name of its own."""
        return self.server.url(self._create(_TEMPLATE))

    def make_empty(self, folder: Path) -> str:
        """A database without tables."""
        return self.server.url(self._create("template0"))

    def _create(self, template: str) -> str:
        name = f"test_{secrets.token_hex(6)}"
        self.server.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        self.made.append(name)
        return name

    def drop_all(self) -> None:
        """Remove the copies, whoever is still connected."""
        while self.made:
            self.server.execute(f"DROP DATABASE IF EXISTS {self.made.pop()} WITH (FORCE)")


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
