# Copied from device_agent/pock_agent/weights by `python -m client.generate`.
"""Makes weights of a delta and of what they began as. Whoever wrote the delta may have meant harm: sizes are bounded by
`limit`, memory by some windows, and what does not fit is refused."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from .making import FORMAT, VERSION, exclusive_or
from .slices import WINDOW, Slices, parse_slices, selected_bytes, windows
from .tensors import ITEM_BYTES, Header, MalformedWeights, Tensor, header_bytes, parse_form, parse_object, read_header

_READ = 1 << 16


@dataclass(frozen=True)
class Change:
    """What a delta says of one tensor: its form, whether the base has it, where it differs, and its packed bits."""

    tensor: Tensor
    based: bool
    slices: Slices
    packed: Tensor


def is_delta(path: Path) -> bool:
    """Whether a safetensors file is a delta. Raises MalformedWeights, OSError."""
    with path.open("rb") as file:
        return read_header(file).metadata.get("format") == FORMAT


def base_of(path: Path) -> str:
    """The SHA-256 of the weights that a delta belongs to. Raises MalformedWeights, OSError."""
    with path.open("rb") as file:
        return _checked(read_header(file)).metadata.get("base", "")


def restore(base: Path, base_digest: str, delta: Path, out: Path, *, everything: bool, limit: int) -> None:
    """Write the weights as safetensors to `out`: those that differ, or `everything` that the base has, too.

    `base_digest` is the SHA-256 of `base`, and `limit` the most bytes of `out`. Raises MalformedWeights, OSError; then
    `out` is not there.
    """
    with base.open("rb") as old, delta.open("rb") as file:
        had, header = read_header(old).tensors, _checked(read_header(file))
        if header.metadata.get("base") != base_digest:
            raise MalformedWeights(f"the delta belongs to other weights than {base_digest[:12]}…")
        changes = _changes(header, had)
        tensors = {**had} if everything else {}
        tensors.update({name: change.tensor for name, change in changes.items()})
        begin = header_bytes(tensors, {"format": "pt"})
        if len(begin) + sum(tensor.nbytes for tensor in tensors.values()) > limit:
            raise MalformedWeights(f"the weights would have more than {limit} bytes")
        try:
            with out.open("wb") as target:
                target.write(begin)
                for name, tensor in tensors.items():
                    _write(target, old, had.get(name), file, changes.get(name), tensor)
                target.flush()
                os.fsync(target.fileno())
        except BaseException:
            out.unlink()
            raise


def _checked(header: Header) -> Header:
    """The header, if it is that of a delta that is understood."""
    found = header.metadata.get("format"), header.metadata.get("version")
    if found != (FORMAT, VERSION):
        raise MalformedWeights(
            f"this is {found[0]!r:.40} of version {found[1]!r:.40}; {FORMAT} {VERSION} is understood"
        )
    return header


def _changes(header: Header, had: Mapping[str, Tensor]) -> dict[str, Change]:
    told = parse_object(header.metadata.get("tensors", ""), "the list of tensors")
    if set(told) != set(header.tensors):
        raise MalformedWeights("the list of tensors names others than the file has")
    found = {}
    for name, value in told.items():
        tensor, packed, based = parse_form(name, value), header.tensors[name], value.get("based")
        if packed.dtype != "U8" or len(packed.shape) != 1 or not isinstance(based, bool):
            raise MalformedWeights(f"tensor {name!r} is not packed as it should be")
        if based and not tensor.same_form(had.get(name)):
            raise MalformedWeights(f"tensor {name!r} has another form in the weights that the delta belongs to")
        slices = parse_slices(name, tensor, value.get("axis"), value.get("ranges"))
        found[name] = Change(tensor, based, slices, packed)
    return found


def _write(
    target: IO[bytes], old: IO[bytes], before: Tensor | None, file: IO[bytes], change: Change | None, tensor: Tensor
) -> None:
    """One tensor, window by window."""
    based = before is not None and (change is None or change.based)
    bits = None if change is None else _Bits(file, change)
    slices = Slices(None, ()) if change is None else change.slices
    for begin, length, spans in windows(tensor, slices):
        data = bytearray(length)
        if based and before is not None:
            old.seek(before.start + begin)
            data = bytearray(old.read(length))
        if bits is not None and spans == [(0, length)]:
            data = bytearray(exclusive_or(bytes(data), bits.take(length)))
        elif bits is not None and spans:
            picked = b"".join([data[a:b] for a, b in spans])
            mixed, at = exclusive_or(picked, bits.take(len(picked))), 0
            for a, b in spans:
                data[a:b] = mixed[at : at + b - a]
                at += b - a
        target.write(data)
    if bits is not None:
        bits.end()


class _Bits:
    """The bits of one tensor that differ, in its order, unpacked as they are asked for."""

    def __init__(self, file: IO[bytes], change: Change) -> None:
        self._file, self._at, self._packed = file, change.packed.start, change.packed.nbytes
        self._left = selected_bytes(change.tensor, change.slices)
        self._item = ITEM_BYTES[change.tensor.dtype]
        self._unpacker = zlib.decompressobj()
        self._ready = bytearray()

    def take(self, count: int) -> bytes:
        """The next bytes. Raises MalformedWeights where there are fewer."""
        while len(self._ready) < count:
            self._ready += self._piece()
        taken = bytes(self._ready[:count])
        del self._ready[:count]
        return taken

    def end(self) -> None:
        """All were taken. Raises MalformedWeights where there are more."""
        if self._left or self._ready or self._unpack(1) or not self._unpacker.eof or self._unpacker.unused_data:
            raise MalformedWeights("a tensor's bits do not end where they should")
        if self._packed:
            raise MalformedWeights("there are bytes behind a tensor's bits")

    def _piece(self) -> bytes:
        length = min(WINDOW, self._left)
        self._left -= length
        data = self._unpack(length)
        if not length or len(data) != length:
            raise MalformedWeights("a tensor's bits end too early")
        whole, plane = bytearray(length), length // self._item
        for place in range(self._item):
            whole[place :: self._item] = data[place * plane : (place + 1) * plane]
        return bytes(whole)

    def _unpack(self, count: int) -> bytes:
        """At most so many bytes; fewer at the end."""
        found = bytearray()
        try:
            while len(found) < count and not self._unpacker.eof:
                packed = self._unpacker.unconsumed_tail or self._more()
                fresh = self._unpacker.decompress(packed, count - len(found))
                if not fresh and not packed:
                    break
                found += fresh
        except zlib.error as error:
            raise MalformedWeights(f"a tensor's bits cannot be unpacked: {error}") from None
        return bytes(found)

    def _more(self) -> bytes:
        self._file.seek(self._at)
        data = self._file.read(min(_READ, self._packed))
        self._at, self._packed = self._at + len(data), self._packed - len(data)
        return data
