"""Fuzzes a whole service through its OpenAPI document, on a real socket, with every kind of credential:

    python -m tests.server.fuzz_api --requests 20000 --engine sqlite|postgresql

schemathesis sends examples, boundary values, generated requests and sequences of calls. It fails for 5xx, undeclared
answers, and calls that do not want their credential; the requests are counted by the service itself.
"""

import argparse
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pock_server.http.guard import Guard
from pock_server.http.protocol import protocol_class
from tests.server.databases import Databases, PostgresDatabases, SqliteDatabases, find_postgres, running_postgres
from tests.server.harness import MovableClock, Server, describe_compiler, make_client, make_settings

# What the document does not state is not checked: what a deleted object answers, which valid data is refused, and why.
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
)
UNLIMITED = {
    "key_rate": 1e9,
    "device_rate": 1e9,
    "address_rate": 1e9,
    "failure_rate": 1e9,
    "poll_seconds": 0.2,
    "slow_seconds": 2,  # who announces more than they send are ended before the fuzzer gives up
}
PATIENCE = 5
"""Seconds for an answer, and for the stream of something that does not end."""
EXAMPLES = 40
"""Generated requests of a call in one round."""


@dataclass
class Counted:
    """The application; counts its answers by status."""

    app: ASGIApp
    answers: Counter[int] = field(default_factory=Counter)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def count(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.answers[message["status"]] += 1
            await send(message)

        await self.app(scope, receive, count if scope["type"] == "http" else send)


@dataclass(frozen=True)
class Group:
    """Calls that one credential is tried on."""

    name: str
    options: tuple[str, ...]
    credential: str | None


def groups(server: Server, seed: int) -> list[Group]:
    """With fresh credentials: a round may have revoked those of the last one."""
    person = server.person()
    device = server.device(person)
    build = person.build(recipe={"batch": 2, "round": seed}).json()
    while person.get(f"/builds/{build['id']}").json()["state"] != "succeeded":
        server.finish_build()  # what earlier rounds have asked for comes first
    assert server.run(person, device, build["id"]).status_code == 202
    device.take_work()
    device.post("lease")
    only, but = "--include-path-regex", "--exclude-path-regex"
    return [
        Group("people", (only, "^/v1/", but, "^/v1/(agent|enroll|api-keys|session|members|me)"), person.key),
        Group("admins", (only, "^/v1/(api-keys|session|members|me)"), server.person().key),
        Group("devices", (only, "^/v1/agent/", but, "^/v1/agent/session$"), device.token),
        Group("strangers", (only, "^(/v1/enroll|/v1/agent/session|/healthz|/readyz|/metrics)$"), None),
    ]


def run_group(url: str, group: Group, examples: int, seed: int) -> bool:
    """Whether schemathesis found nothing; what it found is printed."""
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", *group.options]
    command += ["--checks", ",".join(CHECKS), "--max-examples", str(examples), "--seed", str(seed), "--workers", "1"]
    command += ["--suppress-health-check", "all", "--generation-database", "none", "--no-color", "--warnings", "off"]
    command += ["--continue-on-failure", "--request-timeout", str(PATIENCE), "--no-shrink"]
    if group.credential is not None:
        command += ["--header", f"Authorization: Bearer {group.credential}"]
    with tempfile.TemporaryDirectory() as folder:  # it leaves caches behind
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode != 0:
        print(f"--- {group.name}, seed {seed}\n{done.stdout[-20_000:]}\n{done.stderr[-5_000:]}")
    return done.returncode == 0


@contextmanager
def listening(app: ASGIApp, server: Server) -> Iterator[str]:
    """The address of the application on a socket, served in a thread."""
    http = protocol_class(Guard(server.services.settings.connection_limits))
    config = uvicorn.Config(app, port=0, http=http, ws="none", lifespan="off", log_level="error", proxy_headers=False)
    web = uvicorn.Server(config)
    thread = threading.Thread(target=web.run)
    thread.start()
    try:
        while not web.started:
            thread.join(0.05)
            assert thread.is_alive()
        yield f"http://127.0.0.1:{web.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.services.hub.close()
        web.should_exit = True
        thread.join()


def fuzz(databases: Databases, folder: Path, requests: int) -> bool:
    """Rounds of all groups until the service has had so many requests; whether nothing was found."""
    settings = make_settings(folder, databases, **UNLIMITED)
    describe_compiler(settings)
    client, services = make_client(settings, None)
    server = Server(client, services, MovableClock())
    app, good, seed = Counted(client.app), True, 1
    with client, listening(app, server) as url:
        while sum(app.answers.values()) < requests:
            for group in groups(server, seed):
                good &= run_group(url, group, EXAMPLES, seed)
                print(f"{group.name}, seed {seed}: {sum(app.answers.values())} requests so far", flush=True)
            seed += 1
    services.database.engine.dispose()
    by_status = ", ".join(f"{count} × {status}" for status, count in sorted(app.answers.items()))
    print(f"{sum(app.answers.values())} requests: {by_status}")
    return good and not any(status in (500, 501, 502, 504) for status in app.answers)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--engine", choices=("sqlite", "postgresql"), default="sqlite")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if chosen.engine == "sqlite":
            (folder / "template").mkdir()
            good = fuzz(SqliteDatabases.migrated(folder / "template"), folder / "data", chosen.requests)
        else:
            binaries = find_postgres()
            assert binaries is not None, "PostgreSQL is not installed"
            with running_postgres(binaries) as postgres:
                good = fuzz(PostgresDatabases.migrated(postgres), folder / "data", chosen.requests)
    print("nothing was found" if good else "something was found, see above")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
