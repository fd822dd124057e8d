"""The members of an artifact that runs as a program of a system: executable, library and header."""

from __future__ import annotations

from ...targets import Target
from . import toolchain

EXECUTABLE, HEADER = "bin/model", "bin/model.h"


def members_of(target: Target, executable: bytes, library: bytes) -> tuple[dict[str, bytes], dict[str, str]]:
    """Their contents by name, and which of them are the entry points."""
    name = f"bin/{toolchain.library_name(target)}"
    members = {EXECUTABLE: executable, name: library, HEADER: toolchain.library_header().encode()}
    return members, {"executable": EXECUTABLE, "library": name, "header": HEADER}


def tools() -> dict[str, str]:
    """What makes them, by name, with its version."""
    return {"zig": toolchain.zig_version()}
