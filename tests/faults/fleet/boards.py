"""Agents by the pool: a pool has a network of its own, and a disk. Each agent is installed as one file, with its
launcher; whatever ends is started again, as systemd does."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from pock_agent.disk.directory import StateDirectory
from pock_agent.life.enrollment import Enrollment, enroll
from pock_agent.place.this_machine import ThisMachine
from pock_agent.settings import Settings
from tests.agent.update.fleet import file_of
from tests.faults import clock
from tests.faults.deployment import Deployment
from tests.faults.fleet.beside import Beside
from tests.faults.proxy import Proxy
from tests.faults.surroundings import small_disk

FIRST_VERSION = "0.1.0"
RESTART_SECONDS = 1.0
_DISK_MIB = 12
"""Of a board: its cache, a job's folder and its records take less."""
_ROOM = 64 << 10

_SITE = """\
import os
if "FAULTS_CLOCK" in os.environ:
    import faults_clock
    faults_clock.set_wrong()
"""


@dataclass
class Board:
    """A device: its state, its clock, its agent.

    state  a folder on its disk
    clock  a file elsewhere: how wrong it is, in seconds"""

    name: str
    state: Path
    clock: Path
    environment: Mapping[str, str]
    id: str = ""
    process: "subprocess.Popen[bytes] | None" = None
    down_until: float = 0.0

    def start(self) -> None:
        """Boot."""
        with self.state.with_suffix(".log").open("ab") as log:
            line = [sys.executable, str(self.state / "agent" / "launcher.py"), "run", "--state-dir", str(self.state)]
            environment = {**self.environment, "FAULTS_CLOCK": str(self.clock)}
            self.process = subprocess.Popen(line, stdout=log, stderr=log, env=environment)

    def install(self, file: Path) -> None:
        """Lay the launcher and the agent's file out, as its user does."""
        line = [sys.executable, str(file), "install", "--only-files", "--state-dir", str(self.state)]
        done = subprocess.run(line, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def kill(self, seconds: float = 0.0) -> None:
        """A power cut, which lasts so long."""
        self.down_until = time.monotonic() + seconds
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def works(self) -> bool:
        """Whether a model runs on it at this moment."""
        if self.process is None:
            return False
        with suppress(psutil.Error):  # it has ended at this moment
            return any("artifact/" in " ".join(child.cmdline()) for child in _children(self.process.pid))
        return False

    @property
    def has_room(self) -> bool:
        """Whether its owner could write a file."""
        return shutil.disk_usage(self.state).free >= _ROOM

    def forbid(self) -> None:
        """Have its owner forbid all work."""
        fresh = self.state / "policy.toml.new"
        fresh.write_text("max_minutes_per_day = 0\n")
        fresh.rename(self._policy)

    def allow(self) -> None:
        """Have its owner allow all work."""
        self._policy.unlink()

    @property
    def _policy(self) -> Path:
        return self.state / "policy.toml"

    def set_wrong(self, seconds: float) -> None:
        """Have its clock be wrong."""
        fresh = self.clock.with_name(f"{self.clock.name}.new")
        fresh.write_text(str(seconds))
        fresh.rename(self.clock)


def _children(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


@dataclass
class Pool:
    """Boards behind one network, on one disk."""

    name: str
    network: Proxy
    disk: Path
    boards: list[Board] = field(default_factory=list)


class Caretaker(Beside):
    """Starts every board's agent, and again when it has ended: the only thing that is done for a device."""

    def __init__(self) -> None:
        super().__init__()
        self._boards: list[Board] = []

    def __exit__(self, *error: object) -> None:
        try:
            super().__exit__(*error)
        finally:
            for board in self._boards:
                board.kill()

    def take(self, board: Board) -> None:
        """Care for one more."""
        self._boards.append(board)

    def work(self) -> None:
        """Look after each of them."""
        while not self.ending.wait(0.2):
            for board in list(self._boards):
                ended = board.process is None or board.process.poll() is not None
                if ended and time.monotonic() >= board.down_until and not self.ending.is_set():
                    board.down_until = time.monotonic() + RESTART_SECONDS
                    board.start()


@contextmanager
def pools(deployment: Deployment, folder: Path, sizes: Sequence[int], tokens: Iterator[str]) -> Iterator[list[Pool]]:
    """Enrolled boards, in pools of these sizes. A caretaker starts each as soon as it is there: all at once they would
    leave the service nothing of this machine. They end with the block."""
    file = file_of(folder / "pock-agent.pyz", FIRST_VERSION)
    environment, clocks = _environment(folder), folder / "clocks"
    clocks.mkdir()
    with ExitStack() as stack, Caretaker() as caretaker:
        made = []
        for number, size in enumerate(sizes):
            network = Proxy(lambda: deployment.api_port)
            stack.callback(network.close)
            disk = folder / f"pool-{number}"
            stack.enter_context(small_disk(disk, _DISK_MIB * size + 32))
            pool = Pool(disk.name, network, disk)
            for index in range(size):
                name = f"board-{number}-{index}"
                board = Board(name, disk / f"board-{index}", clocks / name, environment)
                _enrol(board, network, next(tokens))
                board.install(file)
                pool.boards.append(board)
                caretaker.take(board)
            made.append(pool)
        yield made


def _environment(folder: Path) -> dict[str, str]:
    """Of all agents: nothing of this checkout but a clock that may be wrong."""
    site = folder / "site"
    site.mkdir()
    shutil.copy(str(clock.__file__), site / "faults_clock.py")
    (site / "sitecustomize.py").write_text(_SITE)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("POCK_")}
    return {**kept, "PYTHONPATH": str(site), "POCK_AGENT_UNPACKED": str(folder / "unpacked")}


def _enrol(board: Board, network: Proxy, token: str) -> None:
    board.set_wrong(0)
    wish = Enrollment(f"http://127.0.0.1:{network.port}", token, board.name, "host")
    board.id = enroll(wish, StateDirectory(board.state), Settings(), ThisMachine()).device_id
