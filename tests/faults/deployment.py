"""A whole service of real processes, with a proxy wherever a network would be."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from pock_server.services import Services, make_services
from pock_server.settings import Settings
from tests.faults.proxy import Proxy
from tests.server.databases import PostgresDatabases, PostgresServer, find_postgres, running_postgres
from tests.server.harness import MovableClock
from tests.server.stores import S3Server, running_s3

ROOT = Path(__file__).parents[2]
PART = 8192
"""Bytes of an upload that become durable at once."""
_DURABLE = {"fsync": "off", "autovacuum": "off", "jit": "off", "shared_buffers": "32MB", "max_connections": "300"}
"""What was committed survives the end of the database's processes, though not that of the machine."""
_QUICK = {
    "POCK_WORKER_COMMAND": json.dumps([sys.executable, "-m", "tests.faults.worker"]),
    "POCK_SANDBOX": "off",  # the worker needs the tests' own files
    "POCK_DATABASE_TIMEOUT_SECONDS": "2",
    "POCK_BUILD_LEASE_SECONDS": "3",
    "POCK_LEASE_SECONDS": "3",
    "POCK_HEARTBEAT_SECONDS": "0.2",
    "POCK_SWEEP_SECONDS": "0.3",
    "POCK_MAX_ATTEMPTS": "10",
    "POCK_UPLOAD_PART_BYTES": str(PART),
}
_SERVER = [sys.executable, "-c", "from pock_server.cli import main; main()"]


@dataclass
class Deployment:
    """PostgreSQL, an S3 store, an API process that builds, and a device; each may be killed and started again."""

    folder: Path
    postgres: PostgresServer
    store: S3Server
    variables: dict[str, str]
    clients: Proxy
    to_database: Proxy
    to_store: Proxy
    settings: Settings
    mechanic: ThreadPoolExecutor
    """Mends what broke; one thread for ever, as what a thread starts ends with it."""
    api: "subprocess.Popen[str] | None" = None
    api_port: int = 0
    device: "subprocess.Popen[bytes] | None" = None
    key: str = ""
    logs: list[Path] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where clients find the service, through the network."""
        return f"http://127.0.0.1:{self.clients.port}"

    @property
    def state(self) -> Path:
        """The device's state directory."""
        return self.folder / "device"

    def command(self, *line: str) -> str:
        """What a command prints; it must succeed."""
        done = subprocess.run(line, env={**os.environ, **self.variables}, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def start_api(self) -> None:
        """Start the API process; returns when it listens."""
        path = self._log("api")
        with path.open("w") as log:
            line = [sys.executable, "-m", "tests.faults.clock", "serve", "--port", "0", "--json"]
            environment = {**os.environ, **self.variables, **self._clock("service")}
            self.api = subprocess.Popen(line, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.api.stdout is not None
        said = self.api.stdout.readline()
        assert said, path.read_text()
        port = urlsplit(json.loads(said)["url"]).port
        assert port is not None
        self.api_port = port

    def start_device(self) -> None:
        """Start the agent; it is enrolled."""
        with self._log("device").open("wb") as log:
            line = [sys.executable, "-m", "tests.faults.device", self.state]
            environment = {**os.environ, **self._clock("device")}
            self.device = subprocess.Popen(line, cwd=ROOT, stderr=log, env=environment)

    def worker(self) -> psutil.Process:
        """The child that builds, as soon as there is one."""
        assert self.api is not None
        ends = time.monotonic() + 30
        while True:
            for child in psutil.Process(self.api.pid).children():
                if "tests.faults.worker" in child.cmdline() and "build" in child.cmdline():
                    return child
            assert time.monotonic() < ends, "nothing is built"
            time.sleep(0.02)

    def kill_worker(self) -> None:
        """Kill the child that builds, as the kernel does for want of memory."""
        self.worker().kill()

    def enrol(self) -> str:
        """Make the device; its id."""
        token = json.loads(self.command(*_SERVER, "create-token", "--json"))["token"]
        agent = [sys.executable, "-c", "import sys; from pock_agent.cli import main; sys.exit(main())"]
        self.command(*agent, "enroll", self.url, token, "--state-dir", str(self.state))
        return str(json.loads(self.command(*agent, "status", "--json", "--state-dir", str(self.state)))["device_id"])

    def services(self, clock: MovableClock | None = None) -> Services:
        """The service's parts in this process, with a clock of their own."""
        return make_services(self.settings, clock)

    def log(self) -> str:
        """What the service and the agent have logged so far."""
        return "".join(path.read_text() for path in self.logs)

    def jump(self, whose: str, seconds: int) -> None:
        """Have the clock of the "service" or of the "device" be wrong by so much."""
        fresh = self.folder / f"{whose}.clock.new"
        fresh.write_text(str(seconds))
        fresh.rename(self.folder / f"{whose}.clock")

    def _clock(self, whose: str) -> dict[str, str]:
        return {"FAULTS_CLOCK": str(self.folder / f"{whose}.clock")}

    def _log(self, name: str) -> Path:
        self.logs.append(self.folder / f"{name}-{len(self.logs)}.log")
        return self.logs[-1]


@contextmanager
def deployed(folder: Path) -> Iterator[Deployment]:
    """A running service with one device; everything ends with the block."""
    binaries = find_postgres()
    assert binaries is not None, "PostgreSQL is not installed (Debian: apt-get install postgresql)"
    with ExitStack() as stack:
        postgres = stack.enter_context(running_postgres(binaries, _DURABLE))
        store = stack.enter_context(running_s3(folder / "swift"))
        direct = PostgresDatabases.migrated(postgres).make(folder)
        to_database = Proxy(lambda: postgres.port)
        to_store = Proxy(lambda: urlsplit(store.endpoint).port or 0)
        options: dict[str, Any] = {**store.options(), "store_endpoint": f"http://127.0.0.1:{to_store.port}"}
        parts = urlsplit(direct)
        through = direct.replace(f":{parts.port}/", f":{to_database.port}/")
        settings = Settings(data_dir=folder / "data", database_url=through, sandbox="off", **options)
        variables = {f"POCK_{name.upper()}": str(value) for name, value in options.items()} | _QUICK
        variables |= {"POCK_DATABASE_URL": through, "POCK_DATA_DIR": str(folder / "data")}
        variables |= {"POCK_COMPILER_CACHE_DIR": str(folder / "compiler"), "POCK_LOG_FORMAT": "json"}
        clients = Proxy(lambda: made.api_port)
        mechanic = stack.enter_context(ThreadPoolExecutor(1))
        made = Deployment(folder, postgres, store, variables, clients, to_database, to_store, settings, mechanic)
        for proxy in (clients, to_database, to_store):
            stack.callback(proxy.close)
        stack.callback(_end, made)
        for whose in ("service", "device"):
            made.jump(whose, 0)
        made.key = made.command(*_SERVER, "create-key", "--scopes", "all").splitlines()[-1]
        made.start_api()
        yield made


def _end(made: Deployment) -> None:
    for process in (made.device, made.api):
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()
