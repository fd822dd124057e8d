"""The whole service in processes of its own, for the tests of the API: PostgreSQL, Redis, an S3 server, two API
processes and two Celery workers, started once a session. Each test has workspaces of its own; the clock is the
real one.
"""

import itertools
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from pock_server.auth.roles import Role
from pock_server.auth.schemas import Scope
from pock_server.services import Services, make_services
from pock_server.settings import Settings
from tests.server.harness import Browser, Person, Server
from tests.server.redis_servers import running_redis

ROOT = Path(__file__).parents[2]
_COMMAND = (sys.executable, "-m", "pock_server.cli")
_WAIT_SECONDS = 120.0
_BROWSER = {"User-Agent": "testclient"}
_UNLIMITED = dict.fromkeys(("ADDRESS_RATE", "FAILURE_RATE", "KEY_RATE", "DEVICE_RATE"), "1e9")
"""All tests share an address."""


class Balancer(httpx.BaseTransport):
    """Sends each request to the next process, as a proxy does; which name the client asked for stays as it was."""

    def __init__(self, ports: list[int]) -> None:
        self._ports = itertools.cycle(ports)
        self._inner = httpx.HTTPTransport(limits=httpx.Limits(max_connections=None, max_keepalive_connections=20))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The answer of the process whose turn it is."""
        url = request.url.copy_with(scheme="http", host="127.0.0.1", port=next(self._ports))
        content, extensions = request.stream, request.extensions
        return self._inner.handle_request(
            httpx.Request(request.method, url, headers=request.headers, stream=content, extensions=extensions)
        )

    def close(self) -> None:
        """Close its connections."""
        self._inner.close()


@dataclass
class DeployedServer(Server):
    """What the tests' `Server` is, of processes elsewhere. `services` is only there to make keys."""

    balancer: Balancer
    token: str

    def person(self, *scopes: Scope, workspace: str = "default", ttl_days: int = 30) -> Person:
        """Someone in this test's workspace of that name."""
        return super().person(*scopes, workspace=self._own(workspace), ttl_days=ttl_days)

    def member(self, role: Role, name: str = "alice", workspace: str = "default") -> Person:
        """A new member of this test's workspace of that name."""
        return super().member(role, name, self._own(workspace))

    def browser(self, person: Person, base_url: str = "http://testserver") -> Browser:
        """A browser that signed in with the person's key."""
        browser = Browser(client(self.balancer, base_url))
        assert browser.post("/session", headers={"Authorization": f"Bearer {person.key}"}).status_code == 201
        return browser

    def built(self, person: Person, **changes: Any) -> dict[str, Any]:
        """A succeeded build, by one of the workers."""
        build_id = person.build(**changes).json()["id"]
        ends = time.monotonic() + _WAIT_SECONDS
        while True:
            build = dict(person.get(f"/builds/{build_id}").json())
            if build["state"] not in ("queued", "running"):
                assert build["state"] == "succeeded", build
                return build
            assert time.monotonic() < ends, build
            time.sleep(0.02)

    def _own(self, workspace: str) -> str:
        return f"{workspace}-{self.token}"


@dataclass
class Deployment:
    """The running processes."""

    services: Services
    balancer: Balancer
    ports: list[int]
    """Of the API processes."""
    processes: "list[subprocess.Popen[str]]"
    """The API processes and the workers."""

    def server(self) -> DeployedServer:
        """The service, for one test."""
        made = client(self.balancer, "http://testserver")
        return DeployedServer(made, self.services, self.services.clock, self.balancer, secrets.token_hex(4))  # type: ignore[arg-type]


def client(balancer: Balancer, base_url: str) -> Any:
    """What the tests use of a TestClient, over the network."""
    return httpx.Client(
        transport=balancer, base_url=base_url, trust_env=False, follow_redirects=True, timeout=60, headers=_BROWSER
    )


@contextmanager
def deployed(folder: Path, options: dict[str, Any]) -> Iterator[Deployment]:
    """The deployment while the block runs; `options` are settings of an empty migrated database and of a store."""
    with ExitStack() as stack:
        broker = stack.enter_context(running_redis(folder / "redis"))
        own: dict[str, Any] = {
            "data_dir": folder / "data",
            "compiler_cache_dir": str(folder / "compiler"),
            "sandbox": "off",
        }
        own |= {
            "sandbox": "off",
            "runner": "celery",
            "broker_url": broker.url,
            "builds_per_workspace": 2,
            "log_level": "warning",
        }
        settings = Settings(**own, **options)
        settings.data_dir.mkdir()
        variables = {f"POCK_{name.upper()}": str(getattr(settings, name)) for name in settings.model_fields_set}
        variables |= {f"POCK_{name}": value for name, value in _UNLIMITED.items()}
        variables["POCK_WORKER_COMMAND"] = json.dumps([sys.executable, "-m", "tests.server.deployed_worker"])
        environment = {**os.environ, **variables}

        def start(name: str, *arguments: str) -> "subprocess.Popen[str]":
            with (folder / f"{name}.log").open("w") as log:
                line = [*_COMMAND, *arguments]
                child = subprocess.Popen(line, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
            stack.callback(child.wait)
            stack.callback(child.kill)
            return child

        apis = [start(f"api-{number}", "serve", "--port", "0", "--no-migrate", "--json") for number in range(2)]
        workers = [start(f"worker-{number}", "worker") for number in range(2)]
        ports = []
        for number, api in enumerate(apis):
            assert api.stdout is not None
            line = api.stdout.readline()
            assert line, (folder / f"api-{number}.log").read_text()
            ports.append(int(json.loads(line)["url"].rpartition(":")[2]))
        services = make_services(settings)
        stack.callback(services.database.engine.dispose)
        balancer = Balancer(ports)
        stack.callback(balancer.close)
        made = Deployment(services, balancer, ports, [*apis, *workers])
        _await_compiler(made.server().person(), folder)
        yield made


def _await_compiler(person: Person, folder: Path) -> None:
    ends = time.monotonic() + _WAIT_SECONDS
    while person.get("/targets").status_code != 200:
        assert time.monotonic() < ends, (folder / "worker-0.log").read_text()
        time.sleep(0.1)
