"""A phone on a cable: the agent runs on the computer, jobs on the phone."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict
from pathlib import Path

from pock_agent.device.facts import agent_facts
from pock_agent.device.health import HealthSample
from pock_agent.device.network import metered
from pock_agent.device.power import Covers, PowerSource
from pock_agent.device.target import executable_machine, target_of_chip
from pock_agent.errors import AgentError, Away, FailureCode, JobFailed
from pock_agent.place.adb import room as rooms
from pock_agent.place.adb.bridge import Bridge
from pock_agent.place.adb.readings import ABOUT, NOW, About, Readings, about, readings
from pock_agent.values import JsonObject

PACE = 5.0
"""Least seconds between two readings while a job runs. One takes about 50 ms of one of the phone's processors."""
FRESH = 1.0
"""Seconds for which readings count as those of now: several parts of the agent ask at the same moment."""
_LEAST_SDK = 26
"""Android 8: its adb keeps output and errors apart, its toybox has all programs that the scripts use."""
_ABI = "arm64-v8a"


class Phone:
    """See `place.Place`. `owner` begins the names of this agent's rooms; other agents leave them alone."""

    may_leave = True

    def __init__(self, bridge: Bridge, owner: str) -> None:
        self.bridge, self._owner = bridge, owner
        self.name = f"the phone {bridge.serial}"
        self._about: About | None = None
        self._readings: tuple[float, Readings] | None = None
        self._lock = threading.Lock()

    def away(self) -> str | None:
        """As adb's own side of the cable tells it."""
        return self.bridge.away()

    def clear(self, keep: Path) -> None:
        """Remove this agent's rooms on the phone."""
        rooms.clear(self.bridge, self._owner, rooms.path_of(keep, self._owner, make=False))

    def about(self) -> About:
        """What the phone is, asked once. AgentError where it cannot run jobs at all."""
        if self._about is None:
            found = about(self.bridge.shell(ABOUT).text)
            if found.abi != _ABI:
                says = f"its programs are {found.abi or 'of an unknown kind'}, and jobs need {_ABI}"
                raise AgentError(f"{self.name} cannot run jobs: {says}")
            if found.sdk is not None and found.sdk < _LEAST_SDK:
                says = f"it has Android {found.android}, and jobs need Android 8 or later"
                raise AgentError(f"{self.name} cannot run jobs: {says}")
            self._about = found
        return self._about

    def readings(self) -> Readings:
        """What the phone is like now."""
        with self._lock:
            if self._readings is None or time.monotonic() > self._readings[0] + FRESH:
                found = readings(self.bridge.shell(NOW).text)
                self._readings = time.monotonic(), found
            return self._readings[1]

    def detect_target(self, url: str) -> str | None:
        """By its chip."""
        return target_of_chip(self.about().chip)

    def facts(self, target: str, state: Path) -> JsonObject:
        """As those of this machine; `python` is the agent's, on the computer."""
        found, now = self.about(), self.readings()
        return {
            "target": target,
            "emulated": False,
            "hostname": f"{found.maker} {found.model}".strip(),
            "system": "Android",
            "release": found.android,
            "machine": "aarch64",
            "cpu_model": found.chip,
            "cpus": found.processors,
            "cpu_maximum_mhz": found.maximum_mhz,
            "memory_bytes": now.total_bytes,
            "disk_free_bytes": now.room_bytes,
            "reached_by": "adb",
            **agent_facts(),
            "health": asdict(self.health().sample()),
        }

    def health(self) -> PhoneHealth:
        """Its sensors."""
        return PhoneHealth(self)

    def power(self) -> PowerSource | None:
        """Its battery, while that discharges: adb over Wi-Fi."""
        source = PowerSource("the phone's battery", Covers.BOARD, watts=self._watts, interval=PACE)
        return None if self._watts() is None else source

    def _watts(self) -> float | None:
        now = self.readings_or_none()
        return None if now is None else now.watts

    def charging(self) -> bool | None:
        """Whether Android says that it is plugged in: a computer's USB port counts."""
        now = self.readings_or_none()
        return None if now is None else now.plugged

    def temperature(self) -> float | None:
        """Of its hottest zone, else as Android tells it, else of the battery."""
        now = self.readings_or_none()
        return None if now is None or now.hottest is None else now.hottest[0]

    def metered(self) -> bool | None:
        """Of the computer's network, which is the one that jobs come over: the phone's own is not used."""
        return metered()

    def available_memory(self) -> int:
        """As the phone's kernel counts it."""
        now = self.readings()
        available = now.total_bytes if now.free_bytes is None else now.free_bytes
        if available is None:
            raise Away(f"{self.name} does not say how much memory it has")
        return available

    def cpus(self) -> int:
        """All of them."""
        return self.about().processors

    def room(self, folder: Path, executable: str, file_bytes: int) -> rooms.PhoneRoom:
        """A folder of its own below /data/local/tmp."""
        built_for = executable_machine(folder / executable)
        if built_for not in (None, "aarch64"):
            detail = f"the executable is built for {built_for} and the phone is aarch64; build for the phone's target"
            raise JobFailed(FailureCode.BAD_ARGUMENT, detail)
        path = rooms.path_of(folder, self._owner, make=True)
        assert path is not None, "it was to be made"
        return rooms.PhoneRoom(self.bridge, folder, path, file_bytes)

    def readings_or_none(self) -> Readings | None:
        """What the phone is like now; None while it cannot be reached."""
        try:
            return self.readings()
        except Away:
            return None


class PhoneHealth:
    """See `device.health.HealthSource`."""

    pace = PACE

    def __init__(self, phone: Phone) -> None:
        self._phone = phone
        self._start = time.monotonic()

    def sources(self) -> dict[str, str]:
        """The part of the phone that is hottest now, and its battery while that discharges."""
        now, found = self._phone.readings_or_none(), {}
        if now is not None and now.hottest is not None:
            found["temperature_c"] = now.hottest[1]
        if now is not None and now.watts is not None:
            found["power_w"] = f"battery ({Covers.BOARD.value})"
        return found

    def sample(self) -> HealthSample:
        """Read everything now; all unknown while the phone cannot be reached."""
        seconds = round(time.monotonic() - self._start, 3)
        now = self._phone.readings_or_none()
        if now is None:
            return HealthSample(seconds, None, None, None, None, None, None)
        return HealthSample(
            seconds=seconds,
            temperature_c=None if now.hottest is None else now.hottest[0],
            frequency_mhz=now.frequency_mhz,
            throttled=None if now.status is None else now.status > 0,
            battery_percent=now.level_percent,
            on_battery=None if now.plugged is None else not now.plugged,
            free_memory_bytes=now.free_bytes,
            gpu_load_percent=now.gpu_percent,
            power_w=now.watts,
        )
