"""What work keeps on the disk while it goes on: arrays that are replaced, and lines that are added."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...codegen.files import write_whole
from ...errors import DataError
from ...ir import Array
from ...tensors import Tensors, stored_tensors

_EVERY = 5.0
"""Seconds between two copies of arrays, at least: what a kill loses. A copy is as large as the model."""


class KeptArrays:
    """Arrays by name in one safetensors file, which is there whole or not at all; without a file nothing is kept."""

    def __init__(self, file: Path | None) -> None:
        self.file, self._saved = file, time.monotonic()

    def load(self, like: Mapping[str, Array]) -> dict[str, Array] | None:
        """The arrays of the file, where they have the names, types and shapes of `like`; None where there are none."""
        if self.file is None or not self.file.exists():
            return None
        try:
            found = {name: np.array(one) for name, one in stored_tensors(self.file).items()}
        except (ValueError, DataError):
            return None
        return found if _types(found) == _types(like) else None

    def save(self, make: Callable[[], Mapping[str, Array]], at_once: bool = False) -> None:
        """Replace the file, if the last copy is some seconds old. Raises OSError."""
        if self.file is None or not (at_once or time.monotonic() - self._saved > _EVERY):
            return
        write_whole(self.file, Tensors(make()).chunks())
        self._saved = time.monotonic()


def _types(arrays: Mapping[str, Array]) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
    return {name: (array.dtype, array.shape) for name, array in arrays.items()}


class Journal:
    """Results by key, a line of JSON each; without a file they are in memory only. A line that was cut short by a kill
    is dropped. Raises DataError for a file that it did not write, OSError."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self._results: dict[str, dict[str, float | None]] = {}
        if file is not None and file.exists():
            text = file.read_bytes()
            whole = text[: text.rfind(b"\n") + 1]
            if len(whole) < len(text):
                os.truncate(file, len(whole))
            for number, line in enumerate(whole.splitlines(), 1):
                self._read(line, number)

    def get(self, key: str) -> dict[str, float | None] | None:
        """The result of a key, if there is one."""
        return self._results.get(key)

    def add(self, key: str, result: dict[str, float | None]) -> None:
        """Keep a result; it is on the disk when this returns."""
        self._results[key] = result
        if self.file is not None:
            with self.file.open("ab") as output:
                output.write(json.dumps({"key": key, **result}, allow_nan=False).encode() + b"\n")
                output.flush()
                os.fsync(output.fileno())

    def _read(self, line: bytes, number: int) -> None:
        try:
            found = json.loads(line)
            key = found.pop("key")
            sound = isinstance(key, str) and all(one is None or type(one) is float for one in found.values())
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            sound = False
        if not sound:
            raise DataError(f"line {number} of '{self.file}' is no result: delete the file to measure anew")
        self._results[key] = found
