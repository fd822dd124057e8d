"""Checks of the machine: processor, memory, disk, heat, power. All is read below one root, as `device.health` does."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pock_agent.care.finding import Finding, fail, ok, warn
from pock_agent.device.facts import emulated
from pock_agent.device.files import text
from pock_agent.device.firmware import Firmware, firmware_word
from pock_agent.device.health import HealthReader
from pock_agent.device.target import X86_64_V3, cpu_features, emulator_of, machine
from pock_agent.settings import MIB, Settings

LITTLE_MEMORY, LITTLE_DISK = 128 * MIB, 256 * MIB
HOT_C = 80.0
"""A Raspberry Pi slows down from 80 to 85 degrees, most phones earlier."""

_ARM_V8_2 = frozenset({"atomics", "asimdhp", "asimddp"})
FEATURES = {
    **dict.fromkeys(("x86-64-v3", "h100", "h200", "rtx-4090", "rtx-5090"), X86_64_V3),
    "raspberry-pi-4": frozenset({"asimd", "crc32"}),
    "raspberry-pi-zero-2": frozenset({"asimd", "crc32"}),
    "raspberry-pi-5": _ARM_V8_2,
    "jetson-orin-nano": _ARM_V8_2,
    "jetson-agx-orin": _ARM_V8_2,
    "jetson-orin-nano-gpu": _ARM_V8_2,
    "snapdragon-8-gen-3": _ARM_V8_2 | {"i8mm", "bf16"},
}
"""Target -> what its executables use of a processor, in the words of Linux's `/proc/cpuinfo` (for ARM
Documentation/arch/arm64/elf_hwcaps.rst of the kernel)."""


@dataclass(frozen=True)
class Machine:
    """What is looked at. `root` is `/` but in tests."""

    target: str | None
    state: Path
    settings: Settings
    root: Path = Path("/")


def examine(at: Machine) -> Iterator[Finding]:
    """Every check of the machine, one after the other."""
    sample = HealthReader(at.root).sample()
    yield _processor(at)
    yield check_memory(sample.free_memory_bytes)
    yield check_disk(at)
    yield check_heat(sample.temperature_c, sample.throttled)
    yield _governor(at.root)
    yield _power(at.root, sample.on_battery, sample.battery_percent)


def _processor(at: Machine) -> Finding:
    if at.target is None:
        return ok("processor", machine())
    if emulated(at.target):
        emulator = emulator_of("aarch64")
        if emulator is None:
            says = f"this is {machine()} and no {at.target}: install qemu-user-static to emulate it, or enrol anew"
            return fail("processor", says)
        return warn("processor", f"{at.target} is emulated by {emulator}: losses count, times and memory do not")
    lacking = lacking_features(at.target, cpu_features(at.root))
    if lacking:
        return fail("processor", lacking)
    return ok("processor", f"{machine()}, all that executables for {at.target} use")


def lacking_features(target: str | None, features: frozenset[str]) -> str | None:
    """What a processor with these features lacks of what the target's executables use, and what to do; None where it
    lacks nothing."""
    lacking = FEATURES.get(target or "", frozenset()) - features
    if not lacking:
        return None
    names = ", ".join(sorted(lacking))
    return f"it lacks {names}, which executables for {target} use: enrol anew with the right --target"


def check_memory(free: int | None) -> Finding:
    """Of the bytes that a new program can take."""
    if free is None:
        return ok("memory", "this system does not say how much is free")
    if free < LITTLE_MEMORY:
        return warn("memory", f"{free // MIB} MiB are free: stop other programs, or only the smallest jobs start")
    return ok("memory", f"{free // MIB} MiB are free")


def check_disk(at: Machine) -> Finding:
    """Where the agent keeps its state and what it downloads."""
    folder = next(path for path in (at.state, *at.state.parents) if path.exists())
    free = shutil.disk_usage(folder).free
    if not os.access(folder, os.W_OK):
        return fail("disk", f"{folder} cannot be written to: run as its owner, or name another with --state-dir")
    if free < LITTLE_DISK:
        return fail("disk", f"{free // MIB} MiB are free where {at.state} lies: make room, or move it")
    if free < at.settings.cache_bytes:
        wanted = at.settings.cache_bytes // MIB
        return warn("disk", f"{free // MIB} MiB are free, less than the {wanted} MiB that downloads may take")
    return ok("disk", f"{free // MIB} MiB are free")


def check_heat(temperature: float | None, throttled: bool | None) -> Finding:
    """Of the hottest part, in degrees Celsius."""
    if temperature is None:
        return ok("heat", "it has no sensor that can be read")
    if throttled or temperature >= HOT_C:
        slowed = "and slowed down" if throttled else "and will slow down"
        return warn("heat", f"{temperature:.0f} °C {slowed}: cool it, or benchmarks will not be stable")
    return ok("heat", f"{temperature:.0f} °C")


def _governor(root: Path) -> Finding:
    found = set()
    for path in root.glob("sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"):
        found.add(text(path) or "unreadable")
    if "powersave" in found and not (root / "sys/devices/system/cpu/intel_pstate").exists():
        says = "the governor 'powersave' keeps it at its lowest frequency: say cpupower frequency-set -g schedutil"
        return warn("frequency", says)
    return ok("frequency", f"governor {', '.join(sorted(found))}" if found else "not controlled by this system")


def _power(root: Path, on_battery: bool | None, percent: float | None) -> Finding:
    word = firmware_word(root)
    if word is not None and word & Firmware.UNDER_VOLTAGE:
        return warn(
            "power", "the supply's voltage is too low now: use one of 5 V and 3 A (Pi 5: 5 A), and a short cable"
        )
    if word is not None and word & Firmware.UNDER_VOLTAGE_SEEN:
        return warn("power", "the supply's voltage was too low since the start: use a stronger one, or a shorter cable")
    if on_battery:
        left = "" if percent is None else f", {percent:.0f} % left"
        return warn("power", f"on battery{left}: plug it in for benchmarks")
    return ok("power", "from the mains" if on_battery is False else "no complaint")
