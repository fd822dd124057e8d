"""A real service for all tests of the client, both clients for each test, and a service that is nobody's friend."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pock_client import AsyncClient, Client
from tests.client.driven import Driven
from tests.client.hostile import Hostile, hostile_service
from tests.client.proxy import Proxy
from tests.client.service import Service
from tests.turns import by_turns

Connect = Callable[..., Client]
"""Makes a client for an address; it is closed at the end of the test."""
KEY = "pk_01a206a4-ed0a-72b3-aa3f-0801fe16d4a6_secret"


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service for all tests."""
    found = Service(tmp_path_factory.mktemp("service"), POCK_UPLOAD_PART_BYTES=str(1 << 18))
    try:
        found.wait_for_targets()
        with by_turns(Path(__file__).parent, lambda: [found.process] if found.process else []):
            yield found
    finally:
        found.kill()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unfinished uploads of one test are not those of another."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(params=["sync", "async"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Makes clients: once the sync one, once the async one driven to its answers."""
    with ExitStack() as stack:
        loop = asyncio.new_event_loop()
        stack.callback(loop.close)

        def connected(url: str, key: str = KEY, **options: Any) -> Any:
            if request.param == "sync":
                return stack.enter_context(Client(url, key, **options))
            inner = AsyncClient(url, key, **options)
            stack.callback(lambda: loop.run_until_complete(inner.close()))
            return Driven(inner, loop)

        yield connected


@pytest.fixture
def client(connect: Connect, service: Service) -> Client:
    """Of the real service."""
    return connect(service.url, service.key)


@pytest.fixture
def proxy(service: Service) -> Iterator[Proxy]:
    """A way to the real service that can be cut."""
    found = Proxy(service.port)
    yield found
    found.close()


@pytest.fixture
def hostile() -> Iterator[Hostile]:
    """Answers what the test says."""
    with hostile_service() as found:
        yield found


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between attempts are short."""
    monkeypatch.setattr("pock_client.retry._FIRST_SECONDS", 0.01)
    monkeypatch.setattr("pock_client.retry._LONGEST_SECONDS", 0.05)
