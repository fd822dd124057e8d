"""The deployments that are measured, each started from nothing in a folder of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.load.device import Place
from benchmarks.load.processes import pin, pinned
from demo.processes import free_port, wait_until_ready
from pock_server.runner.claims import claim_next, finish
from pock_server.services import make_services
from pock_server.settings import Settings
from tests.server.databases import find_postgres, running_postgres
from tests.server.harness import describe_compiler, make_artifact

_SERVER = (sys.executable, "-m", "pock_server.cli")
_ENVIRONMENT = {"POCK_RUNNER": "none", "POCK_MAX_CONNECTIONS_PER_ADDRESS": "10000"}
"""Builds are not part of this load: the one artifact is made beforehand. All devices have one address."""


@dataclass(frozen=True)
class Deployment:
    """A service that listens, a key with every scope, its settings, and the process ids of its parts."""

    place: Place
    key: str
    environment: Mapping[str, str]
    parts: Mapping[str, int]

    def finish_build(self) -> None:
        """Do what a worker does with the oldest queued build, without a compiler."""
        with _environment(self.environment):
            services = make_services(Settings())
        claim = claim_next(services)
        assert claim is not None, "there is no queued build"
        finish(services, claim, make_artifact(services, claim.build_id))
        services.database.engine.dispose()


Start = Callable[[Path, int], contextlib.AbstractContextManager[Deployment]]
"""Starts a deployment in a folder with this number of API processes."""


@contextlib.contextmanager
def sqlite(folder: Path, processes: int) -> Iterator[Deployment]:
    """The embedded service: SQLite, a folder, one process."""
    if processes != 1:
        raise ValueError("SQLite serves one process")
    environment = {**_ENVIRONMENT, "POCK_DATA_DIR": str(folder)}
    with _serving(folder, environment, 1, {}) as deployment:
        yield deployment


@contextlib.contextmanager
def postgresql(folder: Path, processes: int) -> Iterator[Deployment]:
    """PostgreSQL as it is installed, which survives a power cut, and any number of API processes, all on one core."""
    binaries = find_postgres()
    if binaries is None:
        raise SystemExit("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    with running_postgres(binaries, {"max_connections": "300"}) as server:
        assert server.process is not None
        pin(server.process.pid)
        server.execute("CREATE DATABASE pock")
        environment = {**_ENVIRONMENT, "POCK_DATA_DIR": str(folder), "POCK_DATABASE_URL": server.url("pock")}
        with _serving(folder, environment, processes, {"postgresql": server.process.pid}) as deployment:
            yield deployment


DEPLOYMENTS: dict[str, Start] = {"sqlite": sqlite, "postgresql": postgresql}


@contextlib.contextmanager
def _serving(
    folder: Path, environment: Mapping[str, str], processes: int, parts: Mapping[str, int]
) -> Iterator[Deployment]:
    with _environment(environment):
        describe_compiler(Settings())
    made = subprocess.run(
        [*_SERVER, "create-key"], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    port, log = free_port(), folder / "service.log"
    command = [*_SERVER, "serve", "--port", str(port)]
    if processes > 1:
        command += ["--workers", str(processes)]
    with pinned(command, log, environment) as process:
        wait_until_ready(f"http://127.0.0.1:{port}/readyz", process, log)
        place = Place("127.0.0.1", port)
        yield Deployment(place, made.stdout.strip(), environment, {"api": process.pid, **parts})


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """These environment variables while the block runs."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
