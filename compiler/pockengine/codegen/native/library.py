"""The shared library of an artifact, called through ctypes. Knows C types and pointers, nothing of batches or names."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pockengine.codegen.runner import Given, Place
from pockengine.errors import ArtifactError, DataError, PockError
from pockengine.ir import Array

_ERRORS: dict[int, type[PockError]] = {2: DataError, 3: DataError, 4: ArtifactError, 5: ArtifactError}


class _Place(ctypes.Structure):
    """The library's `pock_place`."""

    _fields_ = (("on_processor", ctypes.c_void_p), ("on_gpu", ctypes.c_void_p), ("gpu", ctypes.c_int))


class _Memory:
    """An open session of the library, closed when nobody needs its memory any more."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library, self.handle = library, ctypes.c_void_p()

    def __del__(self) -> None:
        if self.handle.value:
            self.library.pock_close(self.handle)


class NativeModel:
    """One open session of the library. Methods raise DataError or ArtifactError with the library's own sentence, its
    files without the folder: where an artifact is unpacked says nothing to a user."""

    def __init__(self, library: Path, params: Path, consts: Path | None, threads: int) -> None:
        self._library, self._folder = _load(library), params.parent
        self._memory: _Memory | None = _Memory(self._library)
        consts_path = str(consts).encode() if consts else None
        try:
            self._check(
                self._library.pock_open(ctypes.byref(self._memory.handle), str(params).encode(), consts_path, threads)
            )
        except PockError:
            self.close()
            raise

    def step(self, batch: Sequence[Given]) -> float:
        """One training step on all its micro-batches; its loss, which may be NaN."""
        loss = ctypes.c_float()
        self._check(self._library.pock_step(self._open(), _pointers(batch), ctypes.byref(loss)))
        return float(loss.value)

    def predict(self, batch: Sequence[Given | None], outputs: Sequence[Array | None]) -> None:
        """Fills `outputs`; `batch` has None for targets. With outputs of None alone they stay where they are made."""
        self._check(self._library.pock_predict(self._open(), _pointers(batch), _pointers(outputs)))

    def evaluate(self, batch: Sequence[Given], columns: Array) -> None:
        """Fills f32[4, batch]: of each sample the loss and what it counts, the share of right answers and what it
        counts (-1 and 0 where the model has no notion of right)."""
        self._check(
            self._library.pock_eval(
                self._open(), _pointers(batch), *(ctypes.c_void_p(column.ctypes.data) for column in columns)
            )
        )

    def estimate_norms(self, batch: Sequence[Given | None], done: int) -> None:
        """Takes a batch into the running statistics of batch norms, after `done` others."""
        if not hasattr(self._library, "pock_estimate_norms"):
            raise DataError("this artifact was compiled before there was norm_batches: compile it again")
        self._check(self._library.pock_estimate_norms(self._open(), _pointers(batch), ctypes.c_uint64(done)))

    def get(self, name: str, array: Array) -> None:
        """Copies a tensor into `array`."""
        data = ctypes.c_void_p(array.ctypes.data)
        self._check(self._library.pock_get_tensor(self._open(), name.encode(), data, ctypes.c_size_t(array.nbytes)))

    def set(self, name: str, array: Array) -> None:
        """Replaces a tensor."""
        data = ctypes.c_void_p(array.ctypes.data)
        self._check(self._library.pock_set_tensor(self._open(), name.encode(), data, ctypes.c_size_t(array.nbytes)))

    def input_place(self, index: int) -> Place:
        """Where an input is read from."""
        return self._place("pock_input_place", ctypes.c_uint32(index))

    def output_place(self, index: int) -> Place:
        """Where an output of `predict` is until the next call."""
        return self._place("pock_output_place", ctypes.c_uint32(index))

    def tensor_place(self, name: str) -> Place:
        """Where a parameter or optimizer state is, if it lies there as it is in files."""
        return self._place("pock_tensor_place", name.encode())

    def _place(self, function: str, which: Any) -> Place:
        if not hasattr(self._library, function):
            raise DataError("this artifact was compiled before tensors were handed out in place: compile it again")
        place = _Place()
        self._check(getattr(self._library, function)(self._open(), which, ctypes.byref(place)))
        return Place(place.on_processor, place.on_gpu, place.gpu, self._memory)

    def save(self, path: Path) -> None:
        """Writes all parameters as safetensors."""
        self._check(self._library.pock_save(self._open(), str(path).encode()))

    def load(self, path: Path) -> None:
        """Replaces the parameters that a safetensors file holds."""
        self._check(self._library.pock_load(self._open(), str(path).encode()))

    @property
    def threads(self) -> int:
        """Threads in use."""
        return int(self._library.pock_threads(self._open()))

    def close(self) -> None:
        """Frees memory and threads, once nobody has a place in it any more; may be called twice."""
        self._memory = None

    def _open(self) -> ctypes.c_void_p:
        if self._memory is None:
            raise ArtifactError("this session is closed; load the artifact again")
        return self._memory.handle

    def _check(self, code: int) -> None:
        if code:
            handle = self._open()
            message = self._library.pock_message(handle) if handle.value else b"out of memory"
            raise _ERRORS.get(code, ArtifactError)(message.decode("utf-8", "replace").replace(f"{self._folder}/", ""))


def _load(path: Path) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        reason = str(error).replace(f"{path.parent}/", "")
        raise ArtifactError(f"this machine cannot load the artifact's library: {reason}") from None
    pointer = ctypes.c_void_p
    library.pock_open.argtypes = [ctypes.POINTER(pointer), ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int]
    library.pock_step.argtypes = [pointer, ctypes.POINTER(pointer), ctypes.POINTER(ctypes.c_float)]
    library.pock_predict.argtypes = [pointer, ctypes.POINTER(pointer), ctypes.POINTER(pointer)]
    library.pock_eval.argtypes = [pointer, ctypes.POINTER(pointer), pointer, pointer, pointer, pointer]
    library.pock_get_tensor.argtypes = [pointer, ctypes.c_char_p, pointer, ctypes.c_size_t]
    library.pock_set_tensor.argtypes = [pointer, ctypes.c_char_p, pointer, ctypes.c_size_t]
    library.pock_save.argtypes = [pointer, ctypes.c_char_p]
    library.pock_load.argtypes = [pointer, ctypes.c_char_p]
    library.pock_threads.argtypes = [pointer]
    library.pock_message.argtypes = [pointer]
    library.pock_message.restype = ctypes.c_char_p
    library.pock_close.argtypes = [pointer]
    library.pock_close.restype = None
    return library


def _pointers(arrays: Sequence[Given | None]) -> Any:
    """A C array of the arrays' addresses, NULL for None; the caller keeps the arrays alive."""
    return (ctypes.c_void_p * max(1, len(arrays)))(*map(_address, arrays))


def _address(array: Given | None) -> int | None:
    if array is None:
        return None
    return array.ctypes.data if isinstance(array, np.ndarray) else array.address
