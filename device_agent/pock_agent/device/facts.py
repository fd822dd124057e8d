"""What the agent tells the service about the device it runs on."""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import asdict
from pathlib import Path

from pock_agent import __version__
from pock_agent.device.gpu import find_gpu
from pock_agent.device.health import HealthReader, total_memory
from pock_agent.device.target import machine
from pock_agent.features import FEATURES
from pock_agent.values import JsonObject

# Targets whose processor this machine may only emulate, by the architecture of the real device.
_TARGET_MACHINES = {
    "x86-64-v3": "x86_64",
    "raspberry-pi-4": "aarch64",
    "raspberry-pi-5": "aarch64",
    "raspberry-pi-zero-2": "aarch64",
    "jetson-orin-nano": "aarch64",
    "jetson-agx-orin": "aarch64",
    "jetson-orin-nano-gpu": "aarch64",
    "snapdragon-8-gen-3": "aarch64",
    "apple-m1": "aarch64",
    **dict.fromkeys(("h100", "h200", "rtx-4090", "rtx-5090"), "x86_64"),
}


def emulated(target: str) -> bool:
    """Whether a device enrolled as `target` on this machine only imitates it."""
    return _TARGET_MACHINES.get(target, machine()) != machine()


def device_facts(target: str, state: Path) -> JsonObject:
    """Hardware, system and agent, as plain JSON. Bytes throughout."""
    gpu = find_gpu()
    folder = next(path for path in (state, *state.parents) if path.exists())
    return {
        "target": target,
        "emulated": emulated(target),
        "hostname": platform.node(),
        "system": platform.system(),
        "release": platform.release(),
        "machine": machine(),
        "cpu_model": _cpu_model(),
        "cpus": usable_cpus(),
        "memory_bytes": total_memory(),
        "gpu": gpu.facts if gpu else None,
        "disk_free_bytes": shutil.disk_usage(folder).free,
        **agent_facts(),
        "health": asdict(HealthReader().sample()),
    }


def agent_facts() -> JsonObject:
    """What is so of the agent, wherever its jobs run."""
    return {"python": platform.python_version(), "agent_version": __version__, "features": list(FEATURES)}


def usable_cpus() -> int:
    """Processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor()
    for words in ("model name", "Model", "Hardware"):
        for line in lines:
            if line.startswith(words):
                return line.split(":", 1)[1].strip()
    return platform.processor()
