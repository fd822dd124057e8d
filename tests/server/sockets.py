"""The real command in a process of its own, and bare sockets to it."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from pock_server.auth.schemas import ApiKeyIn, Scope
from pock_server.auth.service import create_key, find_or_add_workspace
from pock_server.clock import SystemClock
from pock_server.services import make_services
from pock_server.settings import Settings

WAIT = 60.0
"""Seconds after which a test gives up."""


@dataclass
class Live:
    """A server that listens; `key` has every scope."""

    process: psutil.Process
    url: str
    key: str

    def connect(self) -> socket.socket:
        parts = urlsplit(self.url)
        assert parts.hostname and parts.port
        return socket.create_connection((parts.hostname, parts.port), timeout=WAIT)

    def rss(self) -> int:
        """Resident bytes."""
        return int(self.process.memory_info().rss)

    def connections(self) -> int:
        """Connections that the server holds open."""
        return sum(found.status == psutil.CONN_ESTABLISHED for found in self.process.net_connections("tcp"))


@contextmanager
def serving(folder: Path, settings: Mapping[str, str]) -> Iterator[Live]:
    """`pock-server serve` with these `POCK_*` settings."""
    command = [sys.executable, "-m", "pock_server.cli", "serve", "--port", "0", "--data-dir", str(folder), "--json"]
    environment = {**os.environ, "POCK_RUNNER": "none", **settings}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        try:
            assert child.stdout is not None
            url = str(json.loads(child.stdout.readline())["url"])
            yield Live(psutil.Process(child.pid), url, _key(folder))
        finally:
            child.kill()


def _key(folder: Path) -> str:
    services = make_services(Settings(data_dir=folder))
    now = SystemClock().now()
    with services.database.write() as unit:
        home = find_or_add_workspace(unit, "default", now)
        key = create_key(unit, home.id, ApiKeyIn(name="test", scopes=list(Scope)), now).key
    services.database.engine.dispose()
    return key


def request(
    method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"", length: int | None = None
) -> bytes:
    """The bytes of a request; `length` announces another size than the body has."""
    size = len(body) if length is None else length
    fields = {"Host": "test", "Content-Length": str(size), **(headers or {})}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items() if value), "", ""]
    return "\r\n".join(lines).encode() + body


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes


def read_answer(connection: socket.socket) -> Answer:
    """The next answer on a connection, which must have a Content-Length."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        part = connection.recv(1)
        assert part, f"the connection ended after {head!r}"
        head += part
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
    body = b""
    size = int(headers.get("content-length", "0"))
    while len(body) < size:
        part = connection.recv(min(65536, size - len(body)))
        assert part, "the connection ended in the middle of a body"
        body += part
    return Answer(int(first.split(" ")[1]), headers, body)


def ends(connection: socket.socket) -> bool:
    """Whether the server closes the connection; what it says before is read and dropped."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def wait_until(condition: Callable[[], bool], seconds: float = WAIT) -> None:
    """Wait for a condition to become true; fails after a while."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it did not come true"
        time.sleep(0.05)
