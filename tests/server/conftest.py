"""Fixtures: a migrated database to copy, and servers on copies of it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pock_server.db.engine import make_engine
from pock_server.migrations.runner import upgrade
from pock_server.settings import Settings
from tests.server.harness import Device, MovableClock, Person, Server, describe_compiler, make_client, make_settings

ServerFactory = Callable[..., Server]


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated, empty SQLite database."""
    folder = tmp_path_factory.mktemp("template")
    engine = make_engine(Settings(data_dir=folder))
    upgrade(engine)
    with engine.connect() as connection:
        connection.exec_driver_sql("SELECT 1")
    engine.dispose()
    return folder / "pock.sqlite3"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[Server]:
    """One server for all tests of a module that leave nothing behind."""
    clock = MovableClock()
    settings = make_settings(tmp_path_factory.mktemp("shared"), template)
    describe_compiler(settings)
    client, services = make_client(settings, clock)
    with client:
        yield Server(client, services, clock)
    services.database.engine.dispose()


@pytest.fixture(scope="module")
def reader(shared: Server) -> Person:
    """Someone on the shared server."""
    return shared.person()


@pytest.fixture
def start_server(tmp_path: Path, template: Path) -> Iterator[ServerFactory]:
    """Starts servers with changed settings; they stop at the end of the test."""
    with ExitStack() as stack:

        def start(**changes: Any) -> Server:
            clock = MovableClock()
            settings = make_settings(tmp_path / "data", template, **changes)
            describe_compiler(settings)
            client, services = make_client(settings, clock)
            stack.enter_context(client)
            stack.callback(services.database.engine.dispose)
            return Server(client, services, clock)

        yield start


@pytest.fixture
def server(start_server: ServerFactory) -> Server:
    """A server that builds nothing on its own."""
    return start_server()


@pytest.fixture
def person(server: Server) -> Person:
    """Someone who may do everything in the default workspace."""
    return server.person()


@pytest.fixture
def device(server: Server, person: Person) -> Device:
    """An enrolled device of the default workspace, with a session."""
    return server.device(person)
