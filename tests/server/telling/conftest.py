"""A receiver of webhooks; and servers that send only when a test says so."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from pock_server.webhooks.delivering import deliver_due
from tests.server.harness import Server


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service's own task sends nothing."""

    async def nothing(_services: object) -> int:
        return 0

    monkeypatch.setattr("pock_server.runner.background.deliver_due", nothing)


def send(server: Server) -> int:
    """Send what is due; how many there were."""
    return asyncio.run(deliver_due(server.services))


@dataclass
class Receiver:
    """What arrived, as (path, headers, body), and what it answers."""

    url: str = ""
    status: int = 200
    location: str | None = None
    body: bytes = b""
    length: int | None = None
    got: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    stall: threading.Event | None = None


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A server of somebody else on this machine."""
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.got.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            if found.stall is not None:
                found.stall.wait(20)
            self.send_response(found.status)
            if found.location:
                self.send_header("Location", found.location)
            self.send_header("Content-Length", str(len(found.body) if found.length is None else found.length))
            self.end_headers()
            self.wfile.write(found.body)

        def log_message(self, *unused: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=lambda: server.serve_forever(0.02))
    thread.start()
    yield found
    if found.stall is not None:
        found.stall.set()
    server.shutdown()
    thread.join()
    server.server_close()
