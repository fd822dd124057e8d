"""Which files an ONNX model keeps its weights in, read from the model's bytes without any library of ONNX.

The model is a protobuf message (onnx.proto3). Of it, this knows the fields that lead to tensors, and of tensors where
their data are.
"""

from __future__ import annotations

import contextlib
import mmap
import re
from collections.abc import Generator
from pathlib import Path

from pock_client.errors import PockClientError

_FIELDS: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}
"""{message: {number of a field: the message in it}}, of those on the way to a tensor's `external_data`."""
_MOST_DEPTH = 100
_MOST_FILES = 1000
_MOST_NAME = 4096
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*(/[A-Za-z0-9_][A-Za-z0-9_.\-]*)*")
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


class _NotProtobufError(Exception):
    """The bytes are no such message; whether the file is ONNX, the service says."""


def external_files(model: Path) -> dict[str, Path]:
    """{name in the model: file}, for each file of external data; they lie beside the model or below.

    Raises PockClientError if one is missing, or lies where a model has no business: nobody else's file is ever sent.
    """
    try:
        with model.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            names = _locations(memoryview(data))
    except (OSError, ValueError) as error:
        raise PockClientError(f"{model} cannot be read: {error}") from error
    return {name: _beside(model, name) for name in sorted(names)}


def _beside(model: Path, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise PockClientError(
            f"{model} keeps data in {name!r}, which is no plain path below its folder: export it anew"
        )
    home = model.parent.resolve()
    file = (home / name).resolve()
    if not file.is_relative_to(home):
        raise PockClientError(f"{model} keeps data in {name!r}, which leads out of its folder: export it anew")
    if not file.is_file():
        raise PockClientError(f"{model} keeps data in {name!r}, which is not there: put it beside the model")
    return file


def _locations(data: memoryview) -> set[str]:
    found: set[str] = set()
    try:
        with contextlib.closing(_entries(data, "model", 0)) as entries:
            for entry in entries:
                parts = {number: bytes(part[:_MOST_NAME]) for number, part in _messages(entry)}
                if parts.get(1) == b"location":
                    found.add(parts.get(2, b"").decode("utf-8", "replace"))
                if len(found) > _MOST_FILES:
                    raise PockClientError(f"the model keeps its data in more than {_MOST_FILES} files")
    except _NotProtobufError:
        return set()
    finally:
        data.release()
    return found


def _entries(data: memoryview, message: str, depth: int) -> Generator[memoryview, None, None]:
    """Every `StringStringEntryProto` of a tensor's `external_data` below a message."""
    if message == "entry":
        yield data
        return
    if depth > _MOST_DEPTH:
        raise _NotProtobufError
    inside = _FIELDS[message]
    for number, part in _messages(data):
        if number in inside:
            yield from _entries(part, inside[number], depth + 1)


def _messages(data: memoryview) -> Generator[tuple[int, memoryview], None, None]:
    """The fields of a message that have a length: (number, content)."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            _, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        elif kind == _LENGTH:
            length, at = _varint(data, at)
            if length > len(data) - at:
                raise _NotProtobufError
            with data[at : at + length] as part:
                yield key >> 3, part
            at += length
        else:
            raise _NotProtobufError
    if at != len(data):
        raise _NotProtobufError


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        value, at = value | (byte & 127) << shift, at + 1
        if byte < 128:
            return value, at
    raise _NotProtobufError
