"""Weights that lie in files beside an ONNX model (external data): memory-mapped, each file once, however many they are.

Source: https://onnx.ai/onnx/repo-docs/ExternalData.html. What a model says of these files is checked: it may have been
written to read another file of this machine.
"""

from __future__ import annotations

import math
import mmap
import os
import stat
from pathlib import Path

import numpy as np
import onnx

from ...errors import ModelError
from ...ir import Array, DType


class Beside:
    """The files beside one model.

    need_weights  False: a floating-point tensor whose file is missing is no error"""

    def __init__(self, model: Path, need_weights: bool) -> None:
        self._model = model
        self._folder = model.resolve().parent
        self._need_weights = need_weights
        self._mapped: dict[Path, memoryview] = {}

    def tensor(self, tensor: onnx.TensorProto, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> Array | None:
        """A tensor that says where it lies, read-only; None where its file is missing and need not be there. Raises
        ModelError."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = self._location(tensor.name, entries.get("location", ""))
        nbytes = math.prod(shape) * dtype.itemsize
        offset = self._position(tensor.name, entries, nbytes)
        if location not in self._mapped:
            if not self._need_weights and not os.path.exists(location) and DType.of(dtype).is_float:
                return None
            self._mapped[location] = _mapped(tensor.name, location)
        content = self._mapped[location]
        if offset + nbytes > len(content):
            raise ModelError(
                f"'{location}' is truncated: '{tensor.name}' ends at byte {offset + nbytes} of {len(content)}"
            )
        return np.frombuffer(content[offset : offset + nbytes], dtype).reshape(shape)

    def _location(self, name: str, given: str) -> Path:
        """The file, which has to lie in the model's own folder."""
        try:
            location = (self._folder / given).resolve()
        except (OSError, RuntimeError, ValueError):  # links in a circle, a zero byte
            raise ModelError(f"the tensor '{name}' lies in a file of no valid name ({given[:80]!r})") from None
        if not location.is_relative_to(self._folder) or location == self._folder:
            raise ModelError(f"the tensor '{name}' points outside the model's folder ('{given}')")
        return location

    def _position(self, name: str, entries: dict[str, str], nbytes: int) -> int:
        """The tensor's first byte in its file."""
        try:
            offset, length = int(entries.get("offset", "0")), int(entries.get("length", nbytes))
        except ValueError:
            raise ModelError(f"the tensor '{name}' has an external position that is not a number") from None
        if length != nbytes:
            raise ModelError(f"'{self._model}' is damaged: the tensor '{name}' has {length} bytes instead of {nbytes}")
        if offset < 0:
            raise ModelError(f"'{self._model}' is damaged: the tensor '{name}' begins at byte {offset} of its file")
        return offset


def _mapped(name: str, location: Path) -> memoryview:
    """A whole file. name: of the tensor that is to be found there"""
    try:
        opened = os.open(location, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would keep us waiting
    except FileNotFoundError:
        raise ModelError(f"the weights of '{name}' are missing: there is no file '{location}'") from None
    except OSError as error:
        raise ModelError(f"cannot read the weights of '{name}' from '{location}': {error.strerror}") from None
    try:
        about = os.fstat(opened)
        if not stat.S_ISREG(about.st_mode):
            raise ModelError(f"the weights of '{name}' are missing: '{location}' is no file")
        return memoryview(mmap.mmap(opened, 0, access=mmap.ACCESS_READ) if about.st_size else b"")
    finally:
        os.close(opened)
