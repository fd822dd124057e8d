"""What a Raspberry Pi's firmware says of its supply and its temperature.

The word and its bits: "vcgencmd get_throttled" in the Raspberry Pi documentation. Kernels since 4.19 show it in a file;
elsewhere the command asks the firmware."""

from __future__ import annotations

import shutil
import subprocess
from enum import IntFlag
from pathlib import Path

from pock_agent.device.files import text

PATIENCE = 2.0
"""Seconds for the command, which hangs where the firmware does."""


class Firmware(IntFlag):
    """Bits of the word."""

    UNDER_VOLTAGE = 1 << 0
    """The supply gives less than 4.63 V now."""
    CAPPED = 1 << 1
    """The frequency is capped now."""
    THROTTLED = 1 << 2
    """It is slowed down now."""
    SOFT_LIMIT = 1 << 3
    """The soft limit of temperature is reached now."""
    UNDER_VOLTAGE_SEEN = 1 << 16
    """The supply gave too little at some time since the start."""
    CAPPED_SEEN = 1 << 17
    THROTTLED_SEEN = 1 << 18
    SOFT_LIMIT_SEEN = 1 << 19


NOW = Firmware.UNDER_VOLTAGE | Firmware.CAPPED | Firmware.THROTTLED | Firmware.SOFT_LIMIT
"""What makes it slower than it could be at this moment."""


def firmware_word(root: Path = Path("/")) -> Firmware | None:
    """The word; None where there is no such firmware, or it says nothing that can be read."""
    said = text(root / "sys/devices/platform/soc/soc:firmware/get_throttled")
    if said is None:
        said = _asked() if root == Path("/") else ""
    try:
        return Firmware(int(said.strip().rpartition("=")[2], 16) & 0xF000F)
    except ValueError:
        return None


def _asked() -> str:
    command = shutil.which("vcgencmd")
    if command is None:
        return ""
    try:
        return subprocess.run(
            [command, "get_throttled"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
