"""Rows about random schemes, kept in a file as they come: one line for each, after one that says of what.

What was cut while it was written is left out, so a run that was stopped, in whatever way, can go on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class OtherRowsError(Exception):
    """A file holds other rows than those that are wanted."""


@dataclass(frozen=True)
class Kept:
    """A file of rows.

    about  what they are about"""

    path: Path
    about: Mapping[str, Any]

    @classmethod
    def of(cls, path: Path, about: Mapping[str, Any]) -> Kept:
        """A new file, or one as it was left, without what was cut while it was written. Raises OtherRowsError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_bytes() if path.exists() else b""
        whole = text[: text.rfind(b"\n") + 1]
        if not whole:
            path.write_bytes(_line(about))
        elif _parsed(whole.splitlines()[0]) != about:
            raise OtherRowsError(f"{path} is not about {json.dumps(about)}: name another place, or remove the file")
        elif whole != text:
            os.truncate(path, len(whole))
        return cls(path, about)

    def rows(self) -> list[dict[str, Any]]:
        """All that were added."""
        lines = [_parsed(line) for line in self.path.read_bytes().splitlines()[1:]]
        return [line for line in lines if line is not None]

    def add(self, row: Mapping[str, Any]) -> None:
        """At once and in one piece: other processes write too."""
        with self.path.open("ab", buffering=0) as file:
            file.write(_line(row))


def _line(found: Mapping[str, Any]) -> bytes:
    return json.dumps(found).encode() + b"\n"


def _parsed(line: bytes) -> Any:
    """None for a line that is none: a process that was killed wrote a part of it."""
    try:
        return json.loads(line)
    except ValueError:
        return None
