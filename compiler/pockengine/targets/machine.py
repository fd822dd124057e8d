"""Measures the machine the compiler runs on, so that the target `host` is as explicit as any other: a real CPU name and
features, never the word native. Object caches and artifacts can then tell one machine from another. `POCK_HOST_CPU`
leaves out what a lesser machine does not have."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from pockengine.errors import TargetError
from pockengine.targets import processor

HOST_CPU = "POCK_HOST_CPU"
"""The environment variable that names a lesser CPU of which alone the host's instructions are used."""
_ARCH_PRCTL, _REQUEST_STATE, _TILE_DATA = 158, 0x1023, 18
"""The system call and its arguments with which a process of Linux asks for the registers of AMX tiles."""

_ARCHITECTURES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


def measure() -> dict[str, Any]:
    """Every field of this machine's Target but name and description. TargetError where we cannot build for it."""
    arch = _ARCHITECTURES.get(platform.machine().lower())
    if arch is None or sys.platform not in ("linux", "darwin"):
        raise TargetError(
            f"this machine ({sys.platform}, {platform.machine()}) cannot be a target; name a device such as 'x86-64-v3'"
        )
    system = "linux" if sys.platform == "linux" else "macos"
    triple = f"{arch}-linux-musl" if system == "linux" else f"{arch}-macos"
    found = _processor(triple)
    return {
        "triple": triple,
        "cpu": found.model,
        "features": found.spelled(triple),
        "os": system,
        "cores": _cores(),
        "ram_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "l1_bytes": _cache_bytes(1, 32 << 10),
        "l2_bytes": _cache_bytes(2, 512 << 10),
        **_vectors(found.features, arch),
    }


def _vectors(features: frozenset[str], arch: str) -> dict[str, int]:
    """Register width and number, and the micro-kernel that fills them: mr * nr accumulators leave room for one row of B
    and a broadcast of A."""
    if "avx512f" in features:
        return {"vector_bytes": 64, "registers": 32, "mr": 8, "nr": 48}
    if "avx2" in features:
        return {"vector_bytes": 32, "registers": 16, "mr": 6, "nr": 16}
    if arch == "aarch64":
        return {"vector_bytes": 16, "registers": 32, "mr": 8, "nr": 12}
    return {"vector_bytes": 16, "registers": 16, "mr": 6, "nr": 8}


def _processor(triple: str) -> processor.Processor:
    """What `POCK_HOST_CPU` names, or all that this machine has."""
    cpu, chosen = actual_cpu(triple), os.environ.get(HOST_CPU)
    if not chosen or chosen == processor.NATIVE:
        return processor.read(triple, cpu)
    try:
        lesser = processor.named(triple, chosen)
    except TargetError as error:
        raise TargetError(f"{HOST_CPU} is '{chosen}', but {error}") from None
    if missing := processor.lacking(triple, lesser, cpu):
        raise TargetError(
            f"{HOST_CPU} is '{chosen}', but this machine ({cpu}) lacks {', '.join(missing)}: name a lesser CPU"
        )
    return processor.read(triple, lesser)


@cache
def actual_cpu(triple: str) -> str:
    """This machine's CPU as `-mcpu` takes it, with every feature that a process may use."""
    found = processor.read(triple, processor.NATIVE)
    if "amx_tile" in found.features and not allow_tiles():
        usable = frozenset(feature for feature in found.features if not feature.startswith("amx_"))
        found = replace(found, features=usable)
    return found.model + "".join(found.spelled(triple))


def allow_tiles() -> bool:
    """Ask the system for the registers of AMX tiles, as the runtime does; whether this process may use them."""
    asked = sys.platform == "linux" and platform.machine() == "x86_64"
    return asked and ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_STATE, _TILE_DATA) == 0


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class Cache:
    """A data cache: its level, its bytes, and the number of cores that share it."""

    level: int
    nbytes: int
    cores: int


def caches() -> tuple[Cache, ...]:
    """The data caches of core 0 on Linux, the nearest first; none where the system does not tell."""
    found = {}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        with suppress(OSError, ValueError):
            size, level = _parse_size(_told(index / "size")), int(_told(index / "level"))
            if "Instr" not in _told(index / "type") and size:
                found[level] = Cache(level, size, _count(_told(index / "shared_cpu_list")))
    return tuple(found[level] for level in sorted(found))


def _cache_bytes(level: int, otherwise: int) -> int:
    return next((cache.nbytes for cache in caches() if cache.level == level), otherwise)


def _told(file: Path) -> str:
    return file.read_text().strip()


def _parse_size(text: str) -> int:
    """`1024K` -> bytes."""
    unit = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:], 1)
    return int(text.rstrip("KM")) * unit


def _count(ranges: str) -> int:
    """How many numbers `0-3,8` names."""
    ends = [[int(end) for end in part.split("-")] for part in ranges.split(",")]
    return sum(end[-1] - end[0] + 1 for end in ends)
