"""A service that answers whatever a test says, and remembers what it was asked."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Asked:
    """A request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """What comes back. `chunks` are sent as they are; without a Content-Length the end of the connection ends them."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    chunks: Iterable[bytes] = ()


def as_json(value: Any, status: int = 200, **headers: str) -> Answer:
    """An answer of a value."""
    body = json.dumps(value).encode()
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Answer(status, {"Content-Type": "application/json", "Content-Length": str(len(body)), **named}, [body])


def problem(status: int, code: int = 1000, detail: str = "No.", retryable: bool = False, **headers: str) -> Answer:
    """A refusal, as the service writes it."""
    body = {"type": f"urn:pock:failure:{code}", "title": "Refused", "status": status, "detail": detail}
    return as_json({**body, "failure_code": code, "retryable": retryable}, status, **headers)


@dataclass
class Hostile:
    """Where it listens, what it answers, and what it was asked."""

    url: str
    answers: Callable[[Asked], Answer] = lambda asked: problem(404, 1005)
    asked: list[Asked] = field(default_factory=list)

    def in_turn(self, *answers: Answer) -> None:
        """Give these answers, one to each request; the last one to all that follow."""
        left = list(answers)
        self.answers = lambda asked: left.pop(0) if len(left) > 1 else left[0]


@contextlib.contextmanager
def hostile_service() -> Iterator[Hostile]:
    """The service while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            with contextlib.suppress(OSError):
                super().handle_one_request()
                return
            self.close_connection = True

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            asked = Asked(self.command, self.path, {name.lower(): text for name, text in self.headers.items()}, body)
            found.asked.append(asked)
            given = found.answers(asked)
            self.send_response_only(given.status)
            for name, text in given.headers.items():
                self.send_header(name, text)
            if "Content-Length" not in given.headers:
                self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                for chunk in given.chunks:
                    self.wfile.write(chunk)

        do_GET = do_POST = do_PATCH = do_DELETE = do_HEAD = answer

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    found = Hostile(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
