"""Weights in files, of which some numbers at a time are in memory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pock_server.weights.tensors import Tensor, header_bytes, read_header

Numbers = NDArray[np.float32]


class Weights:
    """Tensors of f32 in one or two files: what the first lacks is in the second."""

    def __init__(self, *paths: Path) -> None:
        self._places: dict[str, tuple[Path, Tensor]] = {}
        for path in reversed(paths):
            with path.open("rb") as file:
                for name, tensor in read_header(file).tensors.items():
                    self._places[name] = path, tensor

    def names(self) -> list[str]:
        """Of all tensors."""
        return list(self._places)

    def form(self, name: str) -> Tensor | None:
        """The dtype and shape of a tensor, or None where it is not there."""
        return self._places[name][1] if name in self._places else None

    def read(self, name: str, begin: int, count: int) -> Numbers:
        """Numbers of a tensor, from `begin` on: [count]."""
        path, tensor = self._places[name]
        return np.fromfile(path, "<f4", count, offset=tensor.start + 4 * begin)


class Writer:
    """A new safetensors file of f32 tensors, written number by number in the tensors' order."""

    def __init__(self, path: Path, tensors: Mapping[str, Tensor]) -> None:
        self._file = path.open("wb")
        self._file.write(header_bytes(tensors, {"format": "pt"}))

    def write(self, numbers: NDArray[Any]) -> None:
        """The next numbers."""
        self._file.write(numbers.astype("<f4").tobytes())

    def close(self) -> None:
        """No more come."""
        self._file.close()
