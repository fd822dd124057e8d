"""What a deployment stands on, by its kind: servers of others, the networks to them, and a disk."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.faults.proxy import Proxy
from tests.server.databases import PostgresDatabases, PostgresServer, find_postgres, running_postgres
from tests.server.redis_servers import RedisServer, running_redis
from tests.server.stores import S3Server, running_s3

_DURABLE = {"fsync": "off", "autovacuum": "off", "jit": "off", "shared_buffers": "32MB", "max_connections": "300"}
"""What was committed survives the end of the database's processes, though not that of the machine."""
_DISK_MIB = 48


class Kind(StrEnum):
    """How a service can be set up."""

    SERVERS = "servers"
    """PostgreSQL and S3; the API process builds."""
    WORKERS = "workers"
    """The same with Redis and a build worker."""
    EMBEDDED = "embedded"
    """SQLite and a folder, on a small disk."""


@dataclass(frozen=True)
class Surroundings:
    """`variables` are the settings that all processes have, `of_builder` those of the build worker alone, `direct` the
    settings of somebody who goes past the proxy of the database."""

    direct: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    of_builder: dict[str, str] = field(default_factory=dict)
    networks: dict[str, Proxy] = field(default_factory=dict)
    postgres: PostgresServer | None = None
    store: S3Server | None = None
    broker: RedisServer | None = None
    disk: Path | None = None


@contextmanager
def surroundings(kind: Kind, folder: Path) -> Iterator[Surroundings]:
    """They end with the block."""
    with ExitStack() as stack:
        if kind is Kind.EMBEDDED:
            yield Surroundings(disk=stack.enter_context(small_disk(folder / "data", _DISK_MIB)))
            return
        binaries = find_postgres()
        assert binaries is not None, "PostgreSQL is not installed (Debian: apt-get install postgresql)"
        postgres = stack.enter_context(running_postgres(binaries, _DURABLE))
        store = stack.enter_context(running_s3(folder / "swift"))
        networks = {
            "database": Proxy(lambda: postgres.port),
            "store": Proxy(lambda: urlsplit(store.endpoint).port or 0),
        }
        database = PostgresDatabases(postgres).make_empty(folder)
        through = database.replace(f":{postgres.port}/", f":{networks['database'].port}/")
        # A store that is started again has another port, so everybody finds it through the proxy.
        options = {**store.options(), "store_endpoint": f"http://127.0.0.1:{networks['store'].port}"}
        direct = {"database_url": database, **options}
        variables = {f"POCK_{name.upper()}": str(value) for name, value in (direct | {"database_url": through}).items()}
        of_builder: dict[str, str] = {}
        broker = stack.enter_context(running_redis(folder / "redis")) if kind is Kind.WORKERS else None
        if broker is not None:
            port = urlsplit(broker.url).port or 0
            networks |= {"broker": Proxy(lambda: port), "broker of the worker": Proxy(lambda: port)}
            variables |= {"POCK_RUNNER": "celery", "POCK_BROKER_URL": _redis(networks["broker"])}
            of_builder = {"POCK_BROKER_URL": _redis(networks["broker of the worker"])}
        for proxy in networks.values():
            stack.callback(proxy.close)
        yield Surroundings(direct, variables, of_builder, networks, postgres, store, broker)


def _redis(proxy: Proxy) -> str:
    return f"redis://127.0.0.1:{proxy.port}/0"


@contextmanager
def small_disk(folder: Path, mib: int) -> Iterator[Path]:
    """A folder with a file system of its own, which only root can make."""
    assert os.geteuid() == 0, "only root can make the small disk that is to be full: run this as root"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(disk: Path) -> None:
    """Take all the room."""
    with (disk / "ballast").open("ab", buffering=0) as file:
        size = 1 << 20
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2


def empty(disk: Path) -> None:
    """Give it back."""
    (disk / "ballast").unlink()
