"""Whether the network that this device uses costs by the byte, as far as its system knows.

NetworkManager tells it of the primary connection (D-Bus API, NMMetered: 1 yes, 2 no, 3 and 4 the same as a guess, 0
unknown). On Android, Termux:API tells whether there is Wi-Fi; without it, it is the mobile network: metered."""

from __future__ import annotations

import json
import shutil
import subprocess

PATIENCE = 5.0
"""Seconds for each program: Termux:API hangs where its app is missing."""
_PROPERTY = "org.freedesktop.NetworkManager"
_METERED = {"1": True, "2": False, "3": True, "4": False}


def metered() -> bool | None:
    """None where nothing tells."""
    said = _asked(
        "busctl", "--system", "get-property", _PROPERTY, "/org/freedesktop/NetworkManager", _PROPERTY, "Metered"
    )
    if said is not None:
        return _METERED.get(said.rpartition(" ")[2])
    wifi = answer_of("termux-wifi-connectioninfo")
    if "supplicant_state" in wifi:
        return wifi["supplicant_state"] != "COMPLETED"
    return None


def answer_of(program: str) -> dict[str, object]:
    """The JSON object that a program of Termux:API prints; an empty one where there is none."""
    try:
        value = json.loads(_asked(program) or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _asked(program: str, *words: str) -> str | None:
    found = shutil.which(program)
    if found is None:
        return None
    try:
        done = subprocess.run(
            [found, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
