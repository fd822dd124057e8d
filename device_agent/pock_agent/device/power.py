"""Electric power and energy, where this device measures them: what was read, in watts or joules, and what it covers.

Sources, the first that is there:
- the board's monitor on a Jetson: an INA3221 with a channel for the whole module (Jetson Linux Developer Guide, "Power
  Monitor"); hwmon gives millivolts and milliamperes;
- a GPU of NVIDIA's that training runs on, which tells its own (`gpu.py`);
- RAPL of Intel and AMD: microjoules of each processor package, counting up to a range and over again (Linux,
  Documentation/power/powercap/powercap.rst); only root may read it on most systems;
- a battery that discharges: microvolts and microamperes, or microwatts (Documentation/ABI/testing/sysfs-class-power).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path

from pock_agent.device.files import number, text
from pock_agent.device.gpu import gpu_of
from pock_agent.values import JsonObject

MODULE_RAILS = ("VDD_IN", "POM_5V_IN", "VDD_GPU_SOC")
"""Labels of the channel for a whole Jetson module: Orin and Xavier NX, Nano, AGX Orin."""
INTERVAL = 0.5
"""Seconds between two readings where these cost nothing."""


class Covers(Enum):
    """What a source measures."""

    BOARD = "board"
    """The whole computer, or module."""
    PROCESSOR = "processor"
    """The processor's packages, without memory, drives and the rest."""
    GPU = "GPU"
    """The GPU with its memory, without the computer around it."""


@dataclass(frozen=True)
class PowerSource:
    """One way to measure. Exactly one of `watts` and `joules` is given; each answers None when it cannot be read now.

    watts   power at this moment
    joules  a counter, which starts anew after `range`

    While energy is added up, it is read each `interval` seconds."""

    name: str
    covers: Covers
    watts: Callable[[], float | None] | None = None
    joules: Callable[[], float | None] | None = None
    range: float = 0.0
    interval: float = INTERVAL


def find_power(root: Path = Path("/")) -> PowerSource | None:
    """The best source of this device that answers; None where it has none."""
    for find in (_monitor, _gpu, _rapl, _battery):
        source = find(root)
        if source is not None and (source.watts or source.joules or _nothing)() is not None:
            return source
    return None


def _nothing() -> None:
    return None


def _monitor(root: Path) -> PowerSource | None:
    for wanted in MODULE_RAILS:
        for label in sorted(root.glob("sys/bus/i2c/drivers/ina3221/*/hwmon/hwmon*/in*_label")):
            channel = label.name[len("in") : -len("_label")]
            if text(label) == wanted and channel.isdigit():
                volts, amperes = (label.with_name(f"{kind}{channel}_input") for kind in ("in", "curr"))
                return PowerSource(f"ina3221 {wanted}", Covers.BOARD, watts=partial(_product, volts, amperes, 1e-6))
    return None


def _gpu(root: Path) -> PowerSource | None:
    gpu = gpu_of(root)
    if gpu is None or gpu.target is None:
        return None
    return PowerSource("nvml", Covers.GPU, watts=gpu.watts)


def _rapl(root: Path) -> PowerSource | None:
    packages = [
        path
        for path in sorted(root.glob("sys/class/powercap/intel-rapl:*"))
        if (text(path / "name") or "").startswith("package")
    ]
    ranges = [number(path / "max_energy_range_uj") or 0.0 for path in packages]
    if len(packages) != 1:
        return None  # counters of several packages start anew at different times: their sum says nothing
    return PowerSource("rapl package", Covers.PROCESSOR, joules=partial(_micro, packages[0]), range=ranges[0] * 1e-6)


def _micro(package: Path) -> float | None:
    found = number(package / "energy_uj")
    return None if found is None else found * 1e-6


def _battery(root: Path) -> PowerSource | None:
    for folder in sorted(root.glob("sys/class/power_supply/*")):
        if text(folder / "type") == "Battery":
            return PowerSource(f"battery {folder.name}", Covers.BOARD, watts=partial(_discharge, folder))
    return None


def _discharge(folder: Path) -> float | None:
    """None while it is charged: the current then is not what the device takes."""
    if text(folder / "status") != "Discharging":
        return None
    power = number(folder / "power_now")
    if power is not None:
        return abs(power) * 1e-6
    return _product(folder / "voltage_now", folder / "current_now", 1e-12)


def _product(one: Path, other: Path, unit: float) -> float | None:
    first, second = number(one), number(other)
    return None if first is None or second is None else abs(first * second) * unit


class EnergyMeter:
    """Adds up the energy between `start` and `stop`, in a thread of its own."""

    def __init__(self, source: PowerSource | None) -> None:
        self._source = source
        self._joules, self._seconds, self._complete = 0.0, 0.0, source is not None
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> EnergyMeter:
        """Begin to measure; harmless where there is nothing to measure with."""
        if self._source is not None:
            self._thread = threading.Thread(target=self._run, name="energy", daemon=True)
            self._thread.start()
        return self

    @property
    def joules(self) -> float | None:
        """Since `start` until the last reading; None where there is nothing to measure with."""
        return None if self._source is None else self._joules

    def stop(self) -> JsonObject | None:
        """Joules, mean watts and their source since `start`; None where nothing was measured, or not without a gap."""
        self._done.set()
        if self._thread is None or self._source is None:
            return None
        self._thread.join()
        if not self._complete or self._seconds <= 0:
            return None
        return {
            "joules": self._joules,
            "mean_watts": self._joules / self._seconds,
            "source": self._source.name,
            "covers": self._source.covers.value,
        }

    def _run(self) -> None:
        assert self._source is not None
        last, at = self._reading(), time.monotonic()
        while last is not None:
            ended = self._done.wait(self._source.interval)
            value, now = self._reading(), time.monotonic()
            if value is None:
                break
            if self._source.joules is not None:
                self._joules += value - last if value >= last else value - last + self._source.range
            else:
                self._joules += (value + last) / 2 * (now - at)
            self._seconds += now - at
            last, at = value, now
            if ended:
                return
        self._complete = False

    def _reading(self) -> float | None:
        assert self._source is not None
        read = self._source.watts or self._source.joules or _nothing
        return read()
