"""Reading what a kernel shows in files, where any of them may be missing, or forbidden, or say nonsense."""

from __future__ import annotations

import math
from pathlib import Path

LONGEST = 4096
"""Bytes of such a file that are looked at."""


def text(path: Path) -> str | None:
    """What a file says, without blanks around it; None where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(LONGEST).decode(errors="replace").strip("\0 \n\t")
    except OSError:
        return None


def number(path: Path) -> float | None:
    """The finite number in a file; None where there is none."""
    try:
        found = float(text(path) or "")
    except ValueError:
        return None
    return found if math.isfinite(found) else None
