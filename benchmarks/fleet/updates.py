"""Agents on this machine update themselves from a real service: releases that do, releases that do not, and kills.

    python -m benchmarks.fleet.updates                  four agents, the one file with all its libraries
    python -m benchmarks.fleet.updates --agents 8 --small    without libraries, from this Python

Each line is one rollout: how it ended, how its devices stand, which versions run afterwards, and how long it took. The
exit status is 1 if a device does not end with a version that works.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from device_agent.onefile import build as onefile
from pock_client import Client
from tests.agent.update import fleet as fleets
from tests.agent.update.fleet import Break, Fleet, in_run, unreadable
from tests.client.service import Service

HANGS = "import time; time.sleep(3600)"
PATIENCE = 600.0


@dataclass(frozen=True)
class Case:
    """A release, what happens meanwhile, and how its rollout has to end."""

    name: str
    version: str
    spoil: Break | None
    ends: str
    meanwhile: Callable[[Fleet, threading.Event], None] | None = None
    then_back: bool = False
    check_in_seconds: int = 15


def kill_agents(fleet: Fleet, over: threading.Event) -> None:
    """A power cut of some machine every few seconds; it starts again at once."""
    chance = random.Random(1)
    while not over.wait(chance.uniform(2, 5)):
        machine = chance.choice(fleet.machines)
        machine.kill()
        machine.start()


def kill_service(fleet: Fleet, over: threading.Event) -> None:
    """The service dies, twice, and starts again."""
    for _ in range(2):
        if over.wait(3):
            return
        fleet.service.restart()


CASES = (
    Case("one that works", "0.2.0", None, "succeeded"),
    Case("one that crashes at its start", "0.3.0", in_run("raise RuntimeError('broken')"), "stopped"),
    Case("one that never connects", "0.4.0", in_run(HANGS), "stopped"),
    Case("one that cannot be imported", "0.5.0", unreadable, "stopped"),
    Case("one that works, service killed", "0.6.0", None, "succeeded", kill_service, check_in_seconds=120),
    Case("one that works, agents killed", "0.7.0", None, "succeeded", kill_agents, check_in_seconds=120),
    Case("one that works, taken back", "0.8.0", None, "succeeded", then_back=True),
)


def carry_out(fleet: Fleet, case: Case) -> bool:
    """Make the release and its rollout, see how it ends, and say so; whether all is well."""
    release = fleet.release(case.version, case.spoil)
    over, began = threading.Event(), time.monotonic()
    failures = 0 if case.ends == "stopped" else len(fleet.machines)  # power cuts may look like crashes
    rollout = fleet.client.rollouts.create(
        release=release,
        on="*",
        stages=[50, 100],
        healthy_seconds=2,
        check_in_seconds=case.check_in_seconds,
        max_failed=failures,
    )
    helper = threading.Thread(target=case.meanwhile, args=(fleet, over)) if case.meanwhile else None
    if helper:
        helper.start()
    done = fleet.client.rollouts.wait(rollout.id, timeout=PATIENCE)
    over.set()
    if helper:
        helper.join()
    well = done.state == case.ends
    if case.then_back:
        fleet.client.rollouts.roll_back(rollout.id)
        done = fleet.client.rollouts.wait(rollout.id, timeout=PATIENCE)
        well &= done.state == "reverted"
    if done.state == "stopped":
        fleet.client.rollouts.cancel(rollout.id)
    seconds = time.monotonic() - began
    working = settled(fleet)
    states = Counter(fleet.states(rollout.id).values())
    details = {
        one.detail for one in fleet.client.rollouts.devices(rollout.id) if one.state in ("failed", "rolled_back")
    }
    said = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    running = ", ".join(f"{count} x {version}" for version, count in sorted(Counter(working.values()).items()))
    print(
        f"{case.name:34} {done.state:10} {said:36} {running:20} {seconds:5.0f} s  {'; '.join(sorted(details))}",
        flush=True,
    )
    return well and len(working) == len(fleet.machines)


def settled(fleet: Fleet) -> dict[str, str]:
    """The versions that run, once every device is there with what its launcher starts."""
    end = time.monotonic() + PATIENCE
    while True:
        told: dict[str, Any] = {one.name: one for one in fleet.client.devices.list()}
        present = {machine.state.name: machine.launch for machine in fleet.machines}
        if all(
            str(told[name].state) == "online"
            and told[name].agent_version == launch["current"]["version"]
            and launch["trial"] is None
            for name, launch in present.items()
        ):
            return {name: str(launch["current"]["version"]) for name, launch in present.items()}
        if time.monotonic() > end:
            return {name: "?" for name, one in told.items() if str(one.state) == "online"}
        time.sleep(0.5)


def whole_file(path: Path, version: str, spoil: Break | None = None) -> Path:
    """The agent as one file of this version, with its libraries for both machines."""
    files = onefile.own_files() | onefile.libraries(Path(".cache/agent"))
    return fleets.write_version(path, files, version, spoil)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Update agents on this machine, with releases that do and do not.")
    parser.add_argument("--agents", type=int, default=4)
    parser.add_argument("--small", action="store_true", help="files without libraries, which this Python has")
    options = parser.parse_args()
    make = fleets.file_of if options.small else whole_file
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "service").mkdir()
        service = Service(folder / "service", POCK_HEARTBEAT_SECONDS="0.5", POCK_POLL_SECONDS="5")
        with Client(service.url, service.key) as client:
            fleet = Fleet(service, client, folder, make=make)
            try:
                first = make(folder / "pock-agent.pyz", "0.1.0")
                for number in range(options.agents):
                    fleet.add(first, f"pi-{number}")
                settled(fleet)
                print(f"{options.agents} agents, a file of {first.stat().st_size / 1e6:.1f} MB")
                good = [carry_out(fleet, case) for case in CASES]
            finally:
                fleet.close()
                service.kill()
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
