"""Which target this device is, and whether (and how) it can run a given executable."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pock_agent.device.files import text
from pock_agent.device.gpu import find_gpu
from pock_agent.errors import FailureCode, JobFailed

_ELF_MACHINES = {62: "x86_64", 183: "aarch64", 40: "arm", 3: "i386", 243: "riscv64"}
_SAME = {"amd64": "x86_64", "arm64": "aarch64", "armv7l": "arm", "armv6l": "arm", "armv8l": "arm", "i686": "i386"}
_NATIVE_TOO = {"aarch64": ("arm",), "x86_64": ("i386",)}
_BOARDS = (
    ("Raspberry Pi 5", "raspberry-pi-5"),
    ("Raspberry Pi 4", "raspberry-pi-4"),
    ("Raspberry Pi Zero 2", "raspberry-pi-zero-2"),
    ("Jetson AGX Orin", "jetson-agx-orin"),
    ("Jetson Orin Nano", "jetson-orin-nano"),
    ("Orin Nano", "jetson-orin-nano"),
)
_CHIPS = {"SM8650": "snapdragon-8-gen-3"}
X86_64_V3 = frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"})


@dataclass(frozen=True)
class Emulation:
    """How an executable runs here: `prefix` goes before its path, empty where the processor runs it itself."""

    prefix: tuple[str, ...]

    @property
    def emulated(self) -> bool:
        """Whether an emulator runs it; its times then say nothing about the real device."""
        return bool(self.prefix)


def machine() -> str:
    """This processor's architecture, by the name ELF tools use."""
    name = platform.machine().lower()
    return _SAME.get(name, name)


def executable_machine(path: Path) -> str | None:
    """The architecture an ELF executable was built for; None for any other kind of file."""
    with path.open("rb") as file:
        header = file.read(20)
    if header[:4] != b"\x7fELF" or len(header) < 20:
        return None
    number = int.from_bytes(header[18:20], "little" if header[5] == 1 else "big")
    return _ELF_MACHINES.get(number, f"ELF machine {number}")


def emulator_of(architecture: str) -> str | None:
    """The program here that runs executables of another architecture, if there is one."""
    return shutil.which(f"qemu-{architecture}-static") or shutil.which(f"qemu-{architecture}")


def emulation_for(path: Path) -> Emulation:
    """How to run the executable here. JobFailed (bad argument) when this device cannot."""
    built_for, here = executable_machine(path), machine()
    if built_for is None or built_for == here or built_for in _NATIVE_TOO.get(here, ()):
        return Emulation(())
    found = emulator_of(built_for)
    if found:
        return Emulation((found,))
    raise JobFailed(
        FailureCode.BAD_ARGUMENT,
        f"the executable is built for {built_for} and this device is {here}; build for this device's target, or "
        "install qemu-user-static here to emulate it",
    )


def detect_target(url: str, root: Path = Path("/")) -> str | None:
    """The compiler's name for this device, or None when nothing that can be read here tells it. `root` is `/` but in
    tests.

    A device that reaches the service over a loopback address is the service's own machine: target `host`.
    """
    if sys.platform == "darwin":
        return "apple-m1" if machine() == "aarch64" else None
    board = text(root / "proc/device-tree/model") or ""
    for words, name in _BOARDS:
        if words in board:
            return name
    if (phone := target_of_chip(_android_chip())) is not None:
        return phone
    if (urlsplit(url).hostname or "") in ("127.0.0.1", "localhost", "::1"):
        return "host"
    if machine() == "x86_64" and cpu_features(root) >= X86_64_V3:
        gpu = find_gpu()
        return (gpu and gpu.target) or "x86-64-v3"
    return None


def target_of_chip(chip: str) -> str | None:
    """The compiler's name for a phone by its chip's model, as Android says it (`ro.soc.model`)."""
    return _CHIPS.get(chip)


def _android_chip() -> str:
    """The chip's model as Android says it, also to programs in Termux; "" elsewhere."""
    program = shutil.which("getprop")
    if program is None:
        return ""
    try:
        return subprocess.run(
            [program, "ro.soc.model"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=5
        ).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def cpu_features(root: Path = Path("/")) -> frozenset[str]:
    """What the processor can do, in the words of Linux's `/proc/cpuinfo`; nothing where there is none."""
    try:
        lines = (root / "proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return frozenset()
    found = next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
    return frozenset(found.partition(":")[2].split())
