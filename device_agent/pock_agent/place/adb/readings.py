"""What a phone says of itself: two scripts for its shell, and what their words mean. Speaks to nobody.

Each script reads all that it can in one call, in sections that begin with `== NAME`. What is missing, forbidden or
nonsense is None. Units are those of the kernel (Documentation/ABI/testing/sysfs-class-power, thermal/sysfs-api.rst) and
of Android's `BatteryService` (tenths of a degree, millivolts) and `ThermalManagerService` (status 0 none, 1 light, …).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

ABOUT = r"""
echo '== properties'
for name in ro.product.manufacturer ro.product.model ro.soc.model ro.build.version.release ro.build.version.sdk \
    ro.product.cpu.abi; do echo "$name=$(getprop $name)"; done
echo '== processor'; cat /proc/cpuinfo
echo '== maxima'
for file in /sys/devices/system/cpu/cpu[0-9]*/cpufreq/cpuinfo_max_freq; do read -r value <$file && echo "$value"; done
echo '== processors'; cat /sys/devices/system/cpu/present
"""
"""What does not change while it runs."""

NOW = r"""
echo '== memory'; cat /proc/meminfo
echo '== zones'
for zone in /sys/class/thermal/thermal_zone*; do
    read -r value <$zone/temp && read -r type <$zone/type && echo "${zone##*/} $value $type"
done
echo '== frequencies'
for file in /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq; do read -r value <$file && echo "$value"; done
echo '== gpu'; cat /sys/class/kgsl/kgsl-3d0/gpu_busy_percentage
echo '== current'; cat /sys/class/power_supply/battery/current_now
echo '== battery'; dumpsys -t 3 battery
echo '== thermal'; dumpsys -t 3 thermalservice
echo '== room'; stat -f -c '%a %S' /data/local/tmp
"""
"""What does."""

_LINES = 4000
_PLUGS = ("AC powered", "USB powered", "Wireless powered", "Dock powered")
_DISCHARGING = 3
_FROM_HAL = "Current temperatures from HAL:"
_TEMPERATURE = re.compile(r"Temperature\{mValue=(-?[\d.]+), mType=(\d+), mName=([^,}]{1,60})")
_PARTS = frozenset({0, 1, 3, 9})
"""Of the types of Android's thermal HAL: processor, GPU, skin, NPU."""
_COLDEST, _HOTTEST = -40.0, 200.0


@dataclass(frozen=True)
class About:
    """What a phone is. Frequencies in MHz, of all processors."""

    maker: str
    model: str
    chip: str
    android: str
    sdk: int | None
    abi: str
    features: frozenset[str]
    processors: int
    maximum_mhz: float | None


@dataclass(frozen=True)
class Readings:
    """What a phone is like. Degrees Celsius, MHz, percent, watts, bytes; `status` is Android's thermal status."""

    zones: tuple[tuple[float, str], ...]
    frequency_mhz: float | None
    gpu_percent: float | None
    level_percent: float | None
    plugged: bool | None
    battery_c: float | None
    watts: float | None
    status: int | None
    free_bytes: int | None
    total_bytes: int | None
    room_bytes: int | None

    @property
    def hottest(self) -> tuple[float, str] | None:
        """Degrees of the hottest part, and its name; of the battery where nothing else can be read."""
        if self.zones:
            return max(self.zones)
        return None if self.battery_c is None else (self.battery_c, "battery")


def about(text: str) -> About:
    """What `ABOUT` printed."""
    parts = _sections(text)
    told = dict(line.split("=", 1) for line in parts.get("properties", ()) if "=" in line)
    words = (line.partition(":") for line in parts.get("processor", ()))
    features = next((rest for name, _, rest in words if name.strip() == "Features"), "")
    present = (parts.get("processors") or [""])[0].rpartition("-")[2]
    maxima = _numbers(parts.get("maxima", ()))
    sdk = _number(told.get("ro.build.version.sdk", ""))
    return About(
        maker=told.get("ro.product.manufacturer", "")[:60],
        model=told.get("ro.product.model", "")[:60],
        chip=told.get("ro.soc.model", "")[:60],
        android=told.get("ro.build.version.release", "")[:20],
        sdk=None if sdk is None else int(sdk),
        abi=told.get("ro.product.cpu.abi", "")[:40],
        features=frozenset(features.split()),
        processors=int(present) + 1 if present.isdecimal() and len(present) < 4 else 1,
        maximum_mhz=max(maxima) / 1000 if maxima else None,
    )


def readings(text: str) -> Readings:
    """What `NOW` printed."""
    parts = _sections(text)
    battery, memory = _told(parts.get("battery", ())), _told(parts.get("memory", ()))
    level, scale = _number(battery.get("level", "")), _number(battery.get("scale", "100"))
    tenths, frequencies = _number(battery.get("temperature", "")), _numbers(parts.get("frequencies", ()))
    plugs = [battery[name] == "true" for name in _PLUGS if name in battery]
    plugged = any(plugs) if plugs else None
    return Readings(
        zones=tuple(_zones(parts.get("zones", ())) or _parts(parts.get("thermal", ()))),
        frequency_mhz=max(frequencies) / 1000 if frequencies else None,
        gpu_percent=_number((parts.get("gpu") or [""])[0].rstrip(" %")),
        level_percent=None if level is None or not scale else 100 * level / scale,
        plugged=plugged,
        battery_c=None if tenths is None else tenths / 10,
        watts=_watts(battery, parts.get("current", ())) if plugged is False else None,
        status=_status(parts.get("thermal", ())),
        free_bytes=_kilobytes(memory.get("MemAvailable", "")),
        total_bytes=_kilobytes(memory.get("MemTotal", "")),
        room_bytes=free_room((parts.get("room") or [""])[0]),
    )


def free_room(line: str) -> int | None:
    """Bytes, from the blocks and their size that `stat -f -c '%a %S'` prints."""
    words = line.split()
    return int(words[0]) * int(words[1]) if len(words) == 2 and all(map(str.isdecimal, words)) else None


def _sections(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    section: list[str] = []
    for line in text.splitlines()[:_LINES]:
        if line.startswith("== "):
            section = found.setdefault(line[3:], [])
        else:
            section.append(line.strip())
    return found


def _told(lines: Iterable[str]) -> dict[str, str]:
    """`name: value`, the first of each name: some phones append a history of values."""
    found: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            found.setdefault(name, value.strip())
    return found


def _zones(lines: Iterable[str]) -> list[tuple[float, str]]:
    found = []
    for line in lines:
        name, _, rest = line.partition(" ")
        value, _, kind = rest.partition(" ")
        degrees = _number(value)
        if degrees is not None and _COLDEST < degrees / 1000 < _HOTTEST:
            found.append((degrees / 1000, f"{name} ({kind[:60] or 'unnamed'})"))
    return found


def _parts(lines: Iterable[str]) -> list[tuple[float, str]]:
    """As Android tells them: present ones, not those that it told its listeners last."""
    found, present = [], False
    for line in lines:
        present = line == _FROM_HAL if line.endswith(":") else present
        match = _TEMPERATURE.search(line) if present else None
        degrees = _number(match[1]) if match else None
        if match and degrees is not None and int(match[2]) in _PARTS and _COLDEST < degrees < _HOTTEST:
            found.append((degrees, match[3]))
    return found


def _status(lines: Iterable[str]) -> int | None:
    value = _number(_told(lines).get("Thermal Status", ""))
    return None if value is None else int(value)


def _watts(battery: Mapping[str, str], current: Iterable[str]) -> float | None:
    """Only of a battery that discharges: otherwise the current is the charger's."""
    volts, amperes = _number(battery.get("voltage", "")), _numbers(current)
    if volts is None or not amperes or _number(battery.get("status", "")) != _DISCHARGING:
        return None
    return volts * 1e-3 * abs(amperes[0]) * 1e-6


def _kilobytes(text: str) -> int | None:
    value = _number(text.partition(" ")[0])
    return None if value is None else int(value) * 1024


def _numbers(lines: Iterable[str]) -> list[float]:
    return [value for value in map(_number, lines) if value is not None]


def _number(text: str) -> float | None:
    """A finite one of a sensible length; None for anything else."""
    try:
        value = float(text) if len(text) < 24 else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None
