"""What the device can say about itself while it works: temperature, frequency, throttling, battery, free memory.

Everything comes from files below one root, so that a test (or a container) can show another device's.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol

from pock_agent.device.files import number, text
from pock_agent.device.firmware import NOW, firmware_word
from pock_agent.device.gpu import gpu_of
from pock_agent.device.power import find_power
from pock_agent.values import JsonObject


@dataclass(frozen=True)
class HealthSample:
    """One reading; None where this device has no such sensor. Degrees Celsius, MHz, percent, watts, bytes; `step` is
    the last one that a training had made by then, None while none trains."""

    seconds: float
    temperature_c: float | None
    frequency_mhz: float | None
    throttled: bool | None
    battery_percent: float | None
    on_battery: bool | None
    free_memory_bytes: int | None
    gpu_load_percent: float | None = None
    power_w: float | None = None
    step: int | None = None


class HealthSource(Protocol):
    """Reads a machine's sensors."""

    pace: float
    """Least seconds between two samples, so that reading them does not show in what is measured."""

    def sources(self) -> dict[str, str]:
        """Where readings come from, as far as there is a choice."""

    def sample(self) -> HealthSample:
        """Read everything now."""


class HealthReader:
    """Reads samples below `root` (normally `/`). The throttle counters count from the reader's creation."""

    pace = 0.0

    def __init__(self, root: Path = Path("/")) -> None:
        self._root, self._sys, self._proc = root, root / "sys", root / "proc"
        self._start = time.monotonic()
        self._first_throttles = self._throttle_count()
        self._gpu = gpu_of(root)
        self._power = find_power(root)

    def sources(self) -> dict[str, str]:
        """Where readings come from, as far as there is a choice: of the present hottest zone its name, of power what is
        measured."""
        found = {}
        zones = self._zones()
        if zones:
            found["temperature_c"] = max(zones)[1]
        if self._power is not None and self._power.watts is not None:
            found["power_w"] = f"{self._power.name} ({self._power.covers.value})"
        return found

    def sample(self) -> HealthSample:
        """Read everything now."""
        return HealthSample(
            seconds=round(time.monotonic() - self._start, 3),
            temperature_c=self.temperature(),
            frequency_mhz=self._frequency(),
            throttled=self._throttled(),
            battery_percent=self._battery("capacity"),
            on_battery=self.on_battery(),
            free_memory_bytes=free_memory(self._proc),
            gpu_load_percent=self._gpu_load(),
            power_w=None if self._power is None or self._power.watts is None else self._power.watts(),
        )

    def temperature(self) -> float | None:
        """Of the hottest zone, in degrees Celsius."""
        return max((value for value, _ in self._zones()), default=None)

    def _zones(self) -> list[tuple[float, str]]:
        """Temperature and name of each zone, and of a GPU with a sensor of its own. Some say nonsense while what they
        measure is off."""
        found = []
        for path in self._sys.glob("class/thermal/thermal_zone*"):
            value = number(path / "temp")
            if value is not None and -40_000 < value < 200_000:
                found.append((value / 1000, f"{path.name} ({text(path / 'type') or 'unnamed'})"))
        if self._gpu is not None and (hot := self._gpu.temperature_c()) is not None:
            found.append((hot, f"nvml ({self._gpu.name})"))
        return found

    def _gpu_load(self) -> float | None:
        """The load of NVIDIA's, a Jetson's (in thousandths), an Adreno's or another's (in percent)."""
        if self._gpu is not None and (known := self._gpu.load_percent()) is not None:
            return known
        for path in ("devices/platform/gpu.0/load", "devices/gpu.0/load", "devices/platform/17000000.gpu/load"):
            load = number(self._sys / path)
            if load is not None:
                return load / 10
        shown = [self._sys / "class/kgsl/kgsl-3d0/gpu_busy_percentage"]
        for file in shown + sorted(self._sys.glob("class/drm/card[0-9]*/device/gpu_busy_percent")):
            try:
                return float((text(file) or "").rstrip(" %"))
            except ValueError:
                continue
        return None

    def _frequency(self) -> float | None:
        values = _numbers(self._sys.glob("devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq"))
        return max(values) / 1000 if values else None

    def _throttled(self) -> bool | None:
        told = [one for one in (self._processor_throttled(), self._gpu and self._gpu.throttled()) if one is not None]
        return any(told) if told else None

    def _processor_throttled(self) -> bool | None:
        firmware = firmware_word(self._root)
        if firmware is not None:
            return bool(firmware & NOW)
        count = self._throttle_count()
        if count is None or self._first_throttles is None:
            return None
        return count > self._first_throttles

    def _throttle_count(self) -> float | None:
        counters = _numbers(self._sys.glob("devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count"))
        return sum(counters) if counters else None

    def _battery(self, name: str) -> float | None:
        values = _numbers(self._sys.glob(f"class/power_supply/*/{name}"))
        return min(values) if values else None

    def on_battery(self) -> bool | None:
        """Whether a battery discharges; None where the system shows none."""
        states = [state for path in self._sys.glob("class/power_supply/*/status") if (state := text(path))]
        return any(state == "Discharging" for state in states) if states else None


class HealthLog:
    """Samples at an interval in its own thread, from creation until `stop`."""

    def __init__(self, reader: HealthSource, interval: float, limit: int) -> None:
        self._reader, self._interval, self._limit = reader, max(interval, reader.pace), limit
        self._step: int | None = None
        self._samples = [reader.sample()]
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)
        self._thread.start()

    def reached(self, step: int | None) -> None:
        """From now on samples say that a training made this step; None: that none trains."""
        self._step = step

    def _run(self) -> None:
        while not self._done.wait(self._interval):
            self._samples.append(replace(self._reader.sample(), step=self._step))
            if len(self._samples) >= self._limit:
                del self._samples[1::2]  # a long job keeps an even picture at half the rate
                self._interval *= 2

    def stop(self) -> JsonObject:
        """End the sampling; the first and last sample, all of them, and their extremes."""
        self._done.set()
        self._thread.join()
        self._samples.append(self._reader.sample())
        temperatures = [s.temperature_c for s in self._samples if s.temperature_c is not None]
        frequencies = [s.frequency_mhz for s in self._samples if s.frequency_mhz is not None]
        throttled = [s.throttled for s in self._samples if s.throttled is not None]
        return {
            "before": asdict(self._samples[0]),
            "after": asdict(self._samples[-1]),
            "max_temperature_c": max(temperatures, default=None),
            "min_frequency_mhz": min(frequencies, default=None),
            "max_frequency_mhz": max(frequencies, default=None),
            "throttled": any(throttled) if throttled else None,
            "sources": self._reader.sources(),
            "samples": [asdict(sample) for sample in self._samples],
        }


def free_memory(proc: Path = Path("/proc")) -> int | None:
    """Bytes that a new process can take without swapping (`MemAvailable`); None where the system does not say."""
    for line in (text(proc / "meminfo") or "").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def total_memory() -> int:
    """Bytes of physical memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _numbers(paths: Iterable[Path]) -> list[float]:
    return [value for value in map(number, paths) if value is not None]
