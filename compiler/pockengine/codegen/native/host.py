"""What the machine is that this runs on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ...targets import Target, get

_SECONDS = 60.0
"""After which a driver is taken for one that does not answer."""


def is_host(target: Target) -> bool:
    """The same system and processor, whatever it multiplies in."""
    host = get("host")
    return (target.triple, target.mcpu) == (host.triple, host.mcpu)


def said_by(script: Path) -> str:
    """What a script that needs nothing but Python prints about this machine; nothing where it fails or does not end.
    In a process of its own: a driver brings threads, and libraries that are other versions of those here."""
    command = [sys.executable, "-I", str(script)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
