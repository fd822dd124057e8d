"""What can break: how it is struck, how it is mended, what the log says of it, and when it is of interest."""

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pock_server.sandbox.memory import MemoryGroup, make_group
from tests.faults import surroundings
from tests.faults.deployment import Deployment
from tests.faults.surroundings import Kind

ALWAYS = ("upload", "build", "lease", "report")
_WITH_STORE = ("upload", "build", "weights")
_STORE_SECONDS = 3.0
"""A shorter time is bridged by repeating, and nobody hears of it."""
_STALLED_SECONDS = 4.0
"""Longer than the database lets a transaction be idle."""
_HOG = """
import sys
from pathlib import Path
held, dying = [], Path("/proc", sys.argv[1])
Path("/proc/self/oom_score_adj").write_text("500")
sys.stdin.readline()
while dying.exists():
    held.append(b"x" * (1 << 20))
"""
_GROUP_BYTES = 32 << 20


@dataclass(frozen=True)
class Fault:
    """Mended after `seconds` and, where the log tells of it while it lasts (`heard`), not before it does. `words` is a
    pattern."""

    strike: Callable[[Deployment], None]
    mend: Callable[[Deployment], None]
    words: str
    moments: tuple[str, ...] = ALWAYS
    seconds: float = 0.6
    heard: bool = False


def _nothing(_: Deployment) -> None:
    pass


def _postgres(how: str, deployment: Deployment) -> None:
    assert deployment.around.postgres is not None
    deployment.around.postgres.stop(signal.SIGKILL) if how == "kill" else deployment.around.postgres.start()


def _store(how: str, deployment: Deployment) -> None:
    assert deployment.around.store is not None
    deployment.around.store.stop() if how == "kill" else deployment.around.store.start()


def _broker(how: str, deployment: Deployment) -> None:
    assert deployment.around.broker is not None
    broker = deployment.around.broker
    acts: dict[str, Callable[[], object]] = {
        "kill": broker.stop,
        "start": broker.start,
        "empty": broker.client.flushall,
    }
    acts[how]()


def _network(whose: str, how: str, deployment: Deployment) -> None:
    proxy = deployment.clients if whose == "clients" else deployment.around.networks[whose]
    {"cut": proxy.cut, "stall": proxy.stall, "heal": proxy.heal}[how]()


def _fill(deployment: Deployment) -> None:
    assert deployment.around.disk is not None
    surroundings.fill(deployment.around.disk)


def _empty(deployment: Deployment) -> None:
    assert deployment.around.disk is not None
    surroundings.empty(deployment.around.disk)


def pause_builder(deployment: Deployment) -> None:
    """Have messages wait in the broker."""
    assert deployment.builder is not None
    deployment.builder.send_signal(signal.SIGSTOP)


def _go_on(deployment: Deployment) -> None:
    assert deployment.builder is not None
    deployment.builder.send_signal(signal.SIGCONT)


def _starve_builder(deployment: Deployment) -> None:
    """Have the kernel kill the build worker for want of memory, in a control group; where none can be had, kill it."""
    assert deployment.builder is not None
    group = make_group(_GROUP_BYTES)
    if group is None:
        deployment.kill_builder()
    else:
        _starve(deployment.builder.pid, group)
        deployment.builder.wait()


def _starve(pid: int, group: MemoryGroup) -> None:
    """A neighbour takes all the group's memory; the kernel ends the process first, which it is told to like least."""
    Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
    group.add(pid)
    hog = subprocess.Popen([sys.executable, "-c", _HOG, str(pid)], stdin=subprocess.PIPE)
    group.add(hog.pid)
    with suppress(BrokenPipeError):
        hog.communicate(b"\n")
    group.close()


SERVERS = {
    "api killed": Fault(Deployment.kill_api, Deployment.start_api, "this process leads"),
    "worker killed": Fault(Deployment.kill_worker, _nothing, "running -> failed", ("build",)),
    "device killed": Fault(Deployment.kill_device, Deployment.start_device, "interrupted", ("lease", "report")),
    "database killed": Fault(partial(_postgres, "kill"), partial(_postgres, "start"), "database"),
    "store killed": Fault(
        partial(_store, "kill"), partial(_store, "start"), "store", _WITH_STORE, _STORE_SECONDS, heard=True
    ),
}
WORKERS = {
    "broker killed": Fault(
        partial(_broker, "kill"), partial(_broker, "start"), "broker", ("order", "build"), heard=True
    ),
    "broker emptied": Fault(partial(_broker, "empty"), _go_on, "the broker was told", ("queued",)),
    "builder killed": Fault(Deployment.kill_builder, Deployment.start_builder, "running -> queued", ("build",)),
    "builder killed for memory": Fault(_starve_builder, Deployment.start_builder, "running -> queued", ("build",)),
}
EMBEDDED = {
    "api killed": Fault(Deployment.kill_api, Deployment.start_api, "the service starts"),
    "disk full": Fault(_fill, _empty, "full|No space left|running -> failed", ("upload", "order", "build"), 1.5),
    # The database may have room in what it keeps of earlier writes, and nobody hears of it.
    "disk full for a device": Fault(_fill, _empty, "", ("lease", "report"), 1.5),
}


def _add_networks() -> None:
    for whose, table, words, moments in (
        ("database", SERVERS, "database", ALWAYS),
        ("store", SERVERS, "store", _WITH_STORE),
        ("clients", SERVERS, "no answer from", ALWAYS),
        ("broker", WORKERS, "broker", ("order",)),
        ("broker of the worker", WORKERS, "broker", ("build",)),
    ):
        mend, cut, stall = (partial(_network, whose, how) for how in ("heal", "cut", "stall"))
        heard, seconds = whose not in ("database", "clients"), _STORE_SECONDS if whose == "store" else 0.6
        table[f"network to {whose} cut"] = Fault(cut, mend, words, moments, seconds, heard)
        # What was swallowed, and then found dead, may be repeated without a word.
        table[f"network to {whose} stalled"] = Fault(stall, mend, "", moments[:2], _STALLED_SECONDS)


def _add_clocks() -> None:
    for whose, seconds, words, moment in (
        ("service", 3600, "the clock jumped", "build"),
        ("service", -3600, "the clock jumped", "run"),
        ("device", 7200, "work refused: the work expired", "run"),
        ("device", 3600, "", "lease"),
        ("device", -3600, "", "lease"),
    ):
        strike, mend = (partial(Deployment.jump, whose=whose, seconds=value) for value in (seconds, 0))
        SERVERS[f"clock of the {whose} wrong by {seconds} s"] = Fault(strike, mend, words, (moment,), 1.5, bool(words))


_add_networks()
_add_clocks()
FAULTS: dict[Kind, dict[str, Fault]] = {Kind.SERVERS: SERVERS, Kind.WORKERS: WORKERS, Kind.EMBEDDED: EMBEDDED}
