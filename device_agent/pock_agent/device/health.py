"""What the device can say about itself while it works: temperature, frequency, throttling, battery, free memory.

Everything comes from files below one root, so that a test (or a container) can show another device's.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from pock_agent.device.firmware import NOW, firmware_word
from pock_agent.values import JsonObject


@dataclass(frozen=True)
class HealthSample:
    """One reading; None where this device has no such sensor. Degrees Celsius, MHz, percent, bytes."""

    seconds: float
    temperature_c: float | None
    frequency_mhz: float | None
    throttled: bool | None
    battery_percent: float | None
    on_battery: bool | None
    free_memory_bytes: int | None


class HealthReader:
    """Reads samples below `root` (normally `/`). The throttle counters count from the reader's creation."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root, self._sys, self._proc = root, root / "sys", root / "proc"
        self._start = time.monotonic()
        self._first_throttles = self._throttle_count()

    def sample(self) -> HealthSample:
        """Read everything now."""
        return HealthSample(
            seconds=round(time.monotonic() - self._start, 3),
            temperature_c=self._temperature(),
            frequency_mhz=self._frequency(),
            throttled=self._throttled(),
            battery_percent=self._battery("capacity"),
            on_battery=self._on_battery(),
            free_memory_bytes=free_memory(self._proc),
        )

    def _temperature(self) -> float | None:
        zones = _numbers(self._sys.glob("class/thermal/thermal_zone*/temp"))
        plausible = [value / 1000 for value in zones if -40_000 < value < 200_000]
        return max(plausible) if plausible else None

    def _frequency(self) -> float | None:
        values = _numbers(self._sys.glob("devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq"))
        return max(values) / 1000 if values else None

    def _throttled(self) -> bool | None:
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

    def _on_battery(self) -> bool | None:
        states = [text for path in self._sys.glob("class/power_supply/*/status") if (text := _text(path))]
        return any(state == "Discharging" for state in states) if states else None


class HealthLog:
    """Samples at an interval in its own thread, from creation until `stop`."""

    def __init__(self, reader: HealthReader, interval: float, limit: int) -> None:
        self._reader, self._interval, self._limit = reader, interval, limit
        self._samples = [reader.sample()]
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._done.wait(self._interval):
            self._samples.append(self._reader.sample())
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
            "samples": [asdict(sample) for sample in self._samples],
        }


def free_memory(proc: Path = Path("/proc")) -> int | None:
    """Bytes that a new process can take without swapping (`MemAvailable`); None where the system does not say."""
    for line in (_text(proc / "meminfo") or "").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def total_memory() -> int:
    """Bytes of physical memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def _numbers(paths: Iterable[Path]) -> list[float]:
    values: list[float] = []
    for path in paths:
        try:
            values.append(float(_text(path) or ""))
        except ValueError:
            continue
    return values
