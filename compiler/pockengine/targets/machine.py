"""Measures the machine the compiler runs on, so that the target `host` is as explicit as any other: a real CPU name and
features, never the word native. Object caches and artifacts can then tell one machine from another."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import ziglang

from pockengine.errors import TargetError

ZIG = Path(ziglang.__file__).parent / "zig"
"""The C compiler, as its package installs it."""

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
    cpu, features = _cpu()
    return {
        "triple": f"{arch}-linux-musl" if system == "linux" else f"{arch}-macos",
        "cpu": cpu,
        "features": _difference(cpu, features, arch),
        "os": system,
        "cores": _cores(),
        "ram_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "l1_bytes": _cache_bytes(1, 32 << 10),
        "l2_bytes": _cache_bytes(2, 512 << 10),
        **_vectors(features, arch),
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


@cache
def _builtin(*arguments: str) -> tuple[str, frozenset[str]]:
    """The CPU model and all its features as zig resolves them."""
    command = [str(ZIG), "build-obj", "--show-builtin", *arguments]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    model = re.search(r"\.model = &std\.Target\.\w+\.cpu\.@?\"?(\w+)", text)
    listed = re.search(r"featureSet\(&\.\{(.*?)\}\)", text, re.DOTALL)
    if model is None or listed is None:
        raise TargetError("zig does not say which CPU this machine has; name a device instead of 'host'")
    return model[1], frozenset(re.findall(r"\.@?\"?(\w+)", listed[1]))


def features_of(triple: str, cpu: str) -> frozenset[str]:
    """All features of a CPU as `-mcpu` names it, with what is added and taken away: `cortex_x4-sve`."""
    return _builtin("-target", triple, f"-mcpu={cpu}")[1]


def _cpu() -> tuple[str, frozenset[str]]:
    cpu, features = _builtin("-mcpu=native")
    if "amx_tile" in features and not allow_tiles():
        features = frozenset(feature for feature in features if not feature.startswith("amx_"))
    return cpu, features


def allow_tiles() -> bool:
    """Ask the system for the registers of AMX tiles, as the runtime does; whether this process may use them."""
    asked = sys.platform == "linux" and platform.machine() == "x86_64"
    return asked and ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_STATE, _TILE_DATA) == 0


def _difference(cpu: str, features: frozenset[str], arch: str) -> tuple[str, ...]:
    """What this machine has beyond the CPU model, and what it lacks of it (hypervisors hide some)."""
    _, usual = _builtin("-target", f"{arch}-freestanding", f"-mcpu={cpu}")
    added = [f"+{feature}" for feature in sorted(features - usual)]
    return tuple(added + [f"-{feature}" for feature in sorted(usual - features)])


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cache_bytes(level: int, otherwise: int) -> int:
    """Data cache of core 0 on Linux; `otherwise` where the system does not tell."""
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if (index / "level").read_text().strip() == str(level) and "Instr" not in (index / "type").read_text():
            return _parse_size((index / "size").read_text().strip())
    return otherwise


def _parse_size(text: str) -> int:
    """`1024K` -> bytes."""
    unit = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:], 1)
    return int(text.rstrip("KM")) * unit
