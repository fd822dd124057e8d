"""Fixtures: migrated databases on each engine, and servers on them.

What speaks to the API alone runs on SQLite and a folder in this process, or on PostgreSQL and S3 in the whole service,
in processes of its own: see `deployment.py`, and `reach.py`, which decides. What reaches into this process runs on
SQLite or on PostgreSQL. All runs on both with POCK_ALL=1. A test that is about one engine alone says so:
`@pytest.mark.parametrize("engine_name", ["postgresql"], indirect=True)`.
"""

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.server.databases import (
    Databases,
    PostgresDatabases,
    PostgresServer,
    SqliteDatabases,
    compile_once,
    find_postgres,
    running_postgres,
)
from tests.server.deployment import Deployment, deployed
from tests.server.harness import Device, MovableClock, Person, Server, describe_compiler, make_client, make_settings
from tests.server.reach import why_in_process
from tests.server.redis_servers import has_redis
from tests.server.stores import S3Server, has_swift, running_s3
from tests.sweeps import ALL
from tests.turns import by_turns

ServerFactory = Callable[..., Server]
StoreOptions = Callable[[], dict[str, Any]]
ENGINES = ("sqlite", "postgresql")
DEPLOYMENT = "deployment"


@pytest.fixture(scope="session", autouse=True)
def compiled_statements() -> Iterator[None]:
    """Statements are compiled once a session, not once a server."""
    with pytest.MonkeyPatch.context() as patch:
        compile_once(patch)
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for this session."""
    binaries = find_postgres()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    with running_postgres(binaries) as server:
        yield server


@pytest.fixture(scope="session")
def sqlite_databases(tmp_path_factory: pytest.TempPathFactory) -> SqliteDatabases:
    """Databases that are files."""
    return SqliteDatabases.migrated(tmp_path_factory.mktemp("template"))


@pytest.fixture(scope="session")
def postgres_databases(postgres: PostgresServer) -> PostgresDatabases:
    """Databases of the session's PostgreSQL server."""
    return PostgresDatabases.migrated(postgres)


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server for this session."""
    if not has_swift():
        pytest.skip(
            "OpenStack Swift is not installed (Debian: apt-get install swift-proxy swift-account "
            "swift-container swift-object)"
        )
    with running_s3(tmp_path_factory.mktemp("s3") / "swift") as server:
        yield server


@pytest.fixture(scope="session")
def deployment(
    tmp_path_factory: pytest.TempPathFactory, postgres_databases: PostgresDatabases, s3: S3Server
) -> Iterator[Deployment]:
    """The whole service in processes of its own, for this session."""
    if not has_redis():
        pytest.skip("Redis is not installed (Debian: apt-get install redis-server)")
    folder = tmp_path_factory.mktemp("deployment")
    url = PostgresDatabases(postgres_databases.server).make(folder)  # of its own: modules drop those that they made
    with (
        deployed(folder, {"database_url": url, **s3.options()}) as made,
        by_turns(Path(__file__).parent, lambda: made.processes),
    ):
        yield made


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on each engine; on PostgreSQL in the whole deployment, if it speaks to the API alone."""
    engine = metafunc._arg2fixturedefs.get("engine_name")
    if engine and engine[-1].func is _ENGINE and not _names_engine(metafunc.definition):
        names = ENGINES if why_in_process(metafunc) else ("sqlite", DEPLOYMENT)
        metafunc.parametrize("engine_name", names, indirect=True, scope="module")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test meets one of its two engines, unless POCK_ALL=1: half of them, by name, the other than SQLite with their
    first input; all else is SQLite's. What was asked for by its whole name runs."""
    if ALL:
        return
    cases: dict[str, dict[str, dict[str, pytest.Item]]] = defaultdict(lambda: defaultdict(dict))
    for item in items:
        engine = item.callspec.params.get("engine_name") if hasattr(item, "callspec") else None
        if engine is not None and not _names_engine(item):
            test, _, inputs = item.nodeid.partition("[")
            cases[test][inputs.replace(engine, "")][engine] = item
    left_out = set()
    for test, by_inputs in cases.items():
        other = zlib.crc32(test.encode()) % 2 == 1
        for place, engines in enumerate(by_inputs.values()):
            elsewhere = other and place == 0
            left_out |= {
                item for engine, item in engines.items() if (engine == "sqlite") == elsewhere and len(engines) == 2
            }
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def _names_engine(item: pytest.Item) -> bool:
    return any("engine_name" in mark.args[0] for mark in item.iter_markers("parametrize"))


@pytest.fixture(scope="module")
def engine_name(request: pytest.FixtureRequest) -> str:
    """Which database the test runs on."""
    return str(request.param)


_ENGINE = engine_name._get_wrapped_function()


@pytest.fixture(scope="module")
def databases(engine_name: str, request: pytest.FixtureRequest) -> Iterator[Databases]:
    """Makes databases of the test's engine; they are gone at the end of the module."""
    made = request.getfixturevalue({"sqlite": "sqlite_databases", "postgresql": "postgres_databases"}[engine_name])
    yield made
    made.drop_all()


@pytest.fixture(scope="module")
def store_options(engine_name: str, request: pytest.FixtureRequest) -> StoreOptions:
    """Settings for a new empty store: a folder beside SQLite, S3 beside PostgreSQL."""
    if engine_name == "sqlite":
        return dict
    server: S3Server = request.getfixturevalue("s3")
    return server.options


@pytest.fixture(scope="module")
def shared(engine_name: str, request: pytest.FixtureRequest) -> Server:
    """One server for all tests of a module that leave nothing behind."""
    if engine_name == DEPLOYMENT:
        deployment: Deployment = request.getfixturevalue("deployment")
        return deployment.server()
    server: Server = request.getfixturevalue("shared_in_process")
    return server


@pytest.fixture(scope="module")
def shared_in_process(
    tmp_path_factory: pytest.TempPathFactory, databases: Databases, store_options: StoreOptions
) -> Iterator[Server]:
    """An application of this process for a module."""
    clock = MovableClock()
    unlimited = {"failure_rate": 1e9, "key_rate": 1e9, "device_rate": 1e9}  # the tests of a module share an address
    settings = make_settings(tmp_path_factory.mktemp("shared"), databases, **store_options(), **unlimited)
    describe_compiler(settings)
    client, services = make_client(settings, clock)
    with client:
        yield Server(client, services, clock)
    services.database.engine.dispose()
    databases.give_back(settings.database_url)


@pytest.fixture(scope="module")
def reader(shared: Server) -> Person:
    """Someone on the shared server."""
    return shared.person()


@pytest.fixture
def start_server(
    tmp_path: Path, databases: Databases, store_options: StoreOptions, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ServerFactory]:
    """Starts servers with changed settings; they stop at the end of the test. Commands find the last one's database and
    go by its clock: to a sweep in 2030, what they write in the test's own year would be too old to keep."""
    used: set[str] = set()  # servers of a test may share a database
    with ExitStack() as stack:

        def start(**changes: Any) -> Server:
            clock = MovableClock()
            settings = make_settings(tmp_path / "data", databases, **{**store_options(), **changes})
            monkeypatch.setenv("POCK_DATABASE_URL", settings.database_url)
            monkeypatch.setattr("pock_server.services.SystemClock", lambda: clock)
            used.add(settings.database_url)
            describe_compiler(settings)
            client, services = make_client(settings, clock)
            stack.enter_context(client)
            stack.callback(services.database.engine.dispose)
            return Server(client, services, clock)

        yield start
    for url in used:
        databases.give_back(url)


@pytest.fixture
def server(engine_name: str, request: pytest.FixtureRequest) -> Server:
    """A server of this process that builds nothing on its own, or the whole deployment."""
    if engine_name == DEPLOYMENT:
        deployment: Deployment = request.getfixturevalue("deployment")
        return deployment.server()
    start_server: ServerFactory = request.getfixturevalue("start_server")
    return start_server()


@pytest.fixture
def person(server: Server) -> Person:
    """Someone who may do everything in the default workspace."""
    return server.person()


@pytest.fixture
def device(server: Server, person: Person) -> Device:
    """An enrolled device of the default workspace, with a session."""
    return server.device(person)
