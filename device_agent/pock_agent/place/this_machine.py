"""The machine that the agent itself runs on."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from pock_agent.confinement.child import Child, Confinement, unprivileged_user
from pock_agent.device.facts import device_facts, usable_cpus
from pock_agent.device.health import HealthReader, free_memory, total_memory
from pock_agent.device.network import answer_of, metered
from pock_agent.device.power import PowerSource, find_power
from pock_agent.device.target import Emulation, detect_target, emulation_for
from pock_agent.values import JsonObject


class ThisMachine:
    """See `place.Place`. All is read below `root`, which is `/` but in tests."""

    name = "this machine"
    may_leave = False

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._reader = HealthReader(root)

    def away(self) -> None:
        """It is here."""

    def clear(self, keep: Path) -> None:
        """Jobs run in the agent's own folder."""

    def detect_target(self, url: str) -> str | None:
        """See `device.target`."""
        return detect_target(url, self._root)

    def facts(self, target: str, state: Path) -> JsonObject:
        """See `device.facts`."""
        return device_facts(target, state)

    def health(self) -> HealthReader:
        """See `device.health`."""
        return HealthReader(self._root)

    def power(self) -> PowerSource | None:
        """See `device.power`."""
        return find_power(self._root)

    def charging(self) -> bool | None:
        """By the kernel, else by Android."""
        on_battery = self._reader.on_battery()
        if on_battery is not None:
            return not on_battery
        plugged = self._termux().get("plugged")
        return plugged != "UNPLUGGED" if isinstance(plugged, str) else None

    def temperature(self) -> float | None:
        """Of the hottest zone, else of the battery, as Android says it."""
        hottest = self._reader.temperature()
        if hottest is not None:
            return hottest
        battery = self._termux().get("temperature")
        return float(battery) if isinstance(battery, (int, float)) else None

    def _termux(self) -> JsonObject:
        """What Android says of its battery to programs that may not read /sys."""
        return answer_of("termux-battery-status") if self._root == Path("/") else {}

    def metered(self) -> bool | None:
        """See `device.network`."""
        return metered()

    def available_memory(self) -> int:
        """Free as the kernel counts it, else all there is."""
        free = free_memory(self._root / "proc")
        return total_memory() if free is None else free

    def cpus(self) -> int:
        """Those that this process may run on."""
        return usable_cpus()

    def room(self, folder: Path, executable: str, file_bytes: int) -> JobFolder:
        """The folder itself; the system sees to the limit."""
        output = folder / "out"
        output.mkdir(exist_ok=True, mode=0o700)
        user = unprivileged_user()
        if user is not None:
            os.chown(output, *user)
        return JobFolder(folder, emulation_for(folder / executable))


class JobFolder:
    """A job's folder on this machine, which is the room itself. See `place.Room`."""

    def __init__(self, folder: Path, emulation: Emulation) -> None:
        self._folder, self.emulation = folder, emulation

    def bring(self, without: Collection[str] = ()) -> None:
        """All is here."""

    def start(self, command: Sequence[str], limits: Confinement) -> Child:
        """See `confinement.child`."""
        return Child(command, self._folder, self._folder / "out", limits)

    def collect(self) -> None:
        """All is here."""

    def remove(self) -> None:
        """The agent clears its own folder."""
