"""A whole service of real processes, with a proxy wherever a network would be."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from pock_server.services import Services, make_services
from pock_server.settings import Settings
from tests.faults.proxy import Proxy
from tests.faults.surroundings import Surroundings
from tests.server.harness import MovableClock

ROOT = Path(__file__).parents[2]
PART = 8192
"""Bytes of an upload that become durable at once."""
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
    "POCK_LOG_FORMAT": "json",
}
SERVER = (sys.executable, "-c", "from pock_server.cli import main; main()")
"""The command of the service."""
_CLOCKED = [sys.executable, "-m", "tests.faults.clock"]


@dataclass
class Deployment:
    """An API process, a build worker where there is a broker, and a device; each may be killed and started again."""

    folder: Path
    around: Surroundings
    mechanic: ThreadPoolExecutor
    """Mends what broke; one thread for ever, as what a thread starts ends with it."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of the service, beside those that make it quick."""
    clients: Proxy = field(init=False)
    api: "subprocess.Popen[str] | None" = None
    api_port: int = 0
    builder: "subprocess.Popen[bytes] | None" = None
    device: "subprocess.Popen[bytes] | None" = None
    key: str = ""
    logs: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clients = Proxy(lambda: self.api_port)

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
        done = subprocess.run(line, env=self._environment(), cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def start_api(self) -> None:
        """Start the API process; returns when it listens."""
        assert self.try_api(), self.logs[-1].read_text()

    def try_api(self) -> bool:
        """The same, as a supervisor does it: False where it ended, as it does while it cannot reach its store."""
        with self._log("api").open("w") as log:
            line = [*_CLOCKED, "serve", "--port", "0", "--json"]
            environment = self._environment(**self._clock("service"))
            self.api = subprocess.Popen(line, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.api.stdout is not None
        said = self.api.stdout.readline()
        if not said:
            return False
        port = urlsplit(json.loads(said)["url"]).port
        assert port is not None
        self.api_port = port
        return True

    def start_builder(self) -> None:
        """Start the process that builds what the broker rings for."""
        with self._log("builder").open("wb") as log:
            environment = self._environment(**self._clock("service"), **self.around.of_builder)
            self.builder = subprocess.Popen([*_CLOCKED, "worker"], env=environment, cwd=ROOT, stdout=log, stderr=log)

    def start_device(self) -> None:
        """Start the agent; it is enrolled."""
        with self._log("device").open("wb") as log:
            line = [sys.executable, "-m", "tests.faults.device", str(self.state)]
            environment = {**os.environ, **self._clock("device")}
            self.device = subprocess.Popen(line, cwd=ROOT, stderr=log, env=environment)

    def kill_api(self) -> None:
        """End it as a power cut would."""
        _kill(self.api)

    def kill_builder(self) -> None:
        """End it as a power cut would."""
        _kill(self.builder)

    def kill_device(self) -> None:
        """End it as a power cut would."""
        _kill(self.device)

    def worker(self) -> psutil.Process:
        """The child that builds, as soon as there is one."""
        ends = time.monotonic() + 120
        while True:
            runner = self.builder or self.api
            assert runner is not None
            with suppress(psutil.Error):  # it has ended at this moment
                for child in psutil.Process(runner.pid).children():
                    if {"tests.faults.worker", "build"} <= set(child.cmdline()):
                        return child
            assert time.monotonic() < ends, "nothing is built"
            time.sleep(0.02)

    def kill_worker(self) -> None:
        """Kill the child that builds, as the kernel does for want of memory."""
        self.worker().kill()

    def children(self) -> list[str]:
        """Builds that run anywhere, also those of runners that were killed, and folders of builds."""
        place, found = str(self.folder), list(map(str, (self.folder / "data" / "work").glob("build-*")))
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                line = process.cmdline()
                if "tests.faults.worker" in line and line[-1].startswith(place):
                    found.append(" ".join(line))
        return found

    def enrol(self) -> str:
        """Make the device; its id."""
        token = json.loads(self.command(*SERVER, "create-token", "--json"))["token"]
        agent = [sys.executable, "-c", "import sys; from pock_agent.cli import main; sys.exit(main())"]
        self.command(*agent, "enroll", self.url, token, "--state-dir", str(self.state))
        return str(json.loads(self.command(*agent, "status", "--json", "--state-dir", str(self.state)))["device_id"])

    def services(self, clock: MovableClock | None = None) -> Services:
        """The service's parts in this process, with a clock of their own."""
        return make_services(Settings(data_dir=self.folder / "data", sandbox="off", **self.around.direct), clock)

    def log(self) -> str:
        """What the service and the agent have logged so far."""
        return "".join(path.read_text() for path in self.logs)

    def jump(self, whose: str, seconds: int) -> None:
        """Have the clock of the "service" or of the "device" be wrong by so much."""
        fresh = self.folder / f"{whose}.clock.new"
        fresh.write_text(str(seconds))
        fresh.rename(self.folder / f"{whose}.clock")

    def _environment(self, **more: str) -> dict[str, str]:
        mine = {"POCK_DATA_DIR": str(self.folder / "data"), "POCK_COMPILER_CACHE_DIR": str(self.folder / "compiler")}
        return {**os.environ, **_QUICK, **self.settings, **mine, **self.around.variables, **more}

    def _clock(self, whose: str) -> dict[str, str]:
        return {"FAULTS_CLOCK": str(self.folder / f"{whose}.clock")}

    def _log(self, name: str) -> Path:
        self.logs.append(self.folder / f"{name}-{len(self.logs)}.log")
        return self.logs[-1]

    def end(self) -> None:
        """End everything."""
        for process in (self.device, self.builder, self.api):
            if process is not None:
                process.send_signal(signal.SIGCONT)
            _kill(process)
        self.clients.close()


def _kill(process: "subprocess.Popen[str] | subprocess.Popen[bytes] | None") -> None:
    if process is not None:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def deployed(folder: Path, around: Surroundings, **settings: str) -> Iterator[Deployment]:
    """A running service with these settings; everything ends with the block."""
    with ThreadPoolExecutor(1) as mechanic:
        made = Deployment(folder, around, mechanic, settings)
        try:
            for whose in ("service", "device"):
                made.jump(whose, 0)
            made.command(*SERVER, "migrate")
            made.key = made.command(*SERVER, "create-key", "--scopes", "all").splitlines()[-1]
            mechanic.submit(made.start_api).result()
            if around.broker is not None:
                mechanic.submit(made.start_builder).result()
            yield made
        finally:
            made.end()
