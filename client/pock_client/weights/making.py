# Copied from device_agent/pock_agent/weights by `python -m client.generate`.
"""Makes a delta: the bits of trained weights that differ from the artifact's. Lossless, in bounded memory."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from .slices import MAX_RANGES, WHOLE, WINDOW, Slices, Span, unit_bytes, windows
from .tensors import ITEM_BYTES, Tensor, header_bytes, read_header

FORMAT, VERSION = "pock-delta", "1"
_WORTH = 0.9
"""Slices are named where they are at most this part of a tensor."""


def make_delta(base: Path, trained: Path, base_digest: str, delta: Path) -> None:
    """Write what `trained` has and `base` has not to `delta`, all safetensors; `base_digest` is the SHA-256 of `base`.
    Raises MalformedWeights, OSError."""
    body = delta.with_name(delta.name + ".body")
    try:
        with base.open("rb") as old, trained.open("rb") as new, body.open("w+b") as out:
            had = read_header(old).tensors
            told: dict[str, Any] = {}
            stored: dict[str, Tensor] = {}
            for name, tensor in read_header(new).tensors.items():
                before = had.get(name)
                pair = _Pair(new, tensor, old, before if tensor.same_form(before) else None)
                slices = pair.changed()
                if slices is None:
                    continue
                stored[name] = Tensor("U8", (pair.store(slices, out),))
                told[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "based": pair.before is not None}
                told[name].update(axis=slices.axis, ranges=slices.ranges)
            metadata = {"format": FORMAT, "version": VERSION, "base": base_digest}
            out.seek(0)
            with delta.open("wb") as file:
                file.write(header_bytes(stored, {**metadata, "tensors": json.dumps(told, separators=(",", ":"))}))
                shutil.copyfileobj(out, file, WINDOW)
                file.flush()
                os.fsync(file.fileno())
    finally:
        body.unlink()


class _Pair:
    """A tensor as it is now and as it was; `before` is None where it was not, or in another form."""

    def __init__(self, new: IO[bytes], tensor: Tensor, old: IO[bytes], before: Tensor | None) -> None:
        self._new, self._tensor, self._old, self.before = new, tensor, old, before

    def changed(self) -> Slices | None:
        """The slices that differ, along the axis where they are fewer; None where nothing differs."""
        shape, row = self._tensor.shape, unit_bytes(self._tensor, 0) if self._tensor.shape else 0
        if self.before is None:
            return WHOLE
        if not 0 < row <= WINDOW:
            return WHOLE if any(now != then for now, then in self._windows()) else None
        unit = unit_bytes(self._tensor, 1) if len(shape) > 1 else row
        rows: list[int] = []
        unchanged: list[Span] = [(0, row)]
        for first, now, then in self._rows(row):
            if now == then:
                continue
            for at in range(0, len(now), row):
                mine, was = now[at : at + row], then[at : at + row]
                if mine != was:
                    rows.append(first + at // row)
                    unchanged = [span for part in unchanged for span in _still(part, mine, was, unit)]
        if not rows:
            return None
        along = Slices(0, _ranges(rows)), Slices(1, tuple((a // unit, b // unit) for a, b in _rest(unchanged, row)))
        parts = len(rows) / shape[0], 1 - sum(b - a for a, b in unchanged) / row
        best = min((0, 1) if len(shape) > 1 else (0,), key=parts.__getitem__)
        return along[best] if parts[best] <= _WORTH and len(along[best].ranges) <= MAX_RANGES else WHOLE

    def _windows(self) -> Iterable[tuple[bytes, bytes]]:
        for begin, length, _ in windows(self._tensor, WHOLE):
            yield self._read(begin, length)

    def _rows(self, row: int) -> Iterable[tuple[int, bytes, bytes]]:
        many = max(1, WINDOW // row)
        for first in range(0, self._tensor.shape[0], many):
            count = min(many, self._tensor.shape[0] - first)
            yield (first, *self._read(first * row, count * row))

    def _read(self, begin: int, length: int) -> tuple[bytes, bytes]:
        self._new.seek(self._tensor.start + begin)
        now = self._new.read(length)
        if self.before is None:
            return now, bytes(length)
        self._old.seek(self.before.start + begin)
        return now, self._old.read(length)

    def store(self, slices: Slices, out: IO[bytes]) -> int:
        """Write the selected bits that differ; how many bytes that took."""
        # Low bits of trained numbers are noise, in which a search finds nothing; the high ones are runs of zeros.
        packer = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS, 9, zlib.Z_RLE)
        item, begin = ITEM_BYTES[self._tensor.dtype], out.tell()
        pending = bytearray()
        for start, length, spans in windows(self._tensor, slices):
            if not spans:
                continue
            now, then = self._read(start, length)
            if spans != [(0, length)]:
                now, then = (b"".join([data[a:b] for a, b in spans]) for data in (now, then))
            pending += exclusive_or(now, then)
            while len(pending) >= WINDOW:
                out.write(packer.compress(_planes(bytes(pending[:WINDOW]), item)))
                del pending[:WINDOW]
        out.write(packer.compress(_planes(bytes(pending), item)))
        out.write(packer.flush())
        return out.tell() - begin


def exclusive_or(one: bytes, other: bytes) -> bytes:
    """The bits that differ; both are equally long."""
    return (int.from_bytes(one, "little") ^ int.from_bytes(other, "little")).to_bytes(len(one), "little")


def _planes(data: bytes, item: int) -> bytes:
    """The first byte of each item, then the second of each: exponents, which hardly change, stand together."""
    return b"".join([data[place::item] for place in range(item)])


def _still(span: Span, mine: bytes, was: bytes, unit: int) -> list[Span]:
    """What of a span is the same in both, in whole units; neighbours are one span."""
    if mine[span[0] : span[1]] == was[span[0] : span[1]]:
        return [span]
    same = [at for at in range(span[0], span[1], unit) if mine[at : at + unit] == was[at : at + unit]]
    return [(a * unit, b * unit) for a, b in _ranges([at // unit for at in same])]


def _ranges(indices: list[int]) -> tuple[Span, ...]:
    """Ascending indices as ranges."""
    found: list[Span] = []
    for index in indices:
        if found and found[-1][1] == index:
            found[-1] = (found[-1][0], index + 1)
        else:
            found.append((index, index + 1))
    return tuple(found)


def _rest(spans: list[Span], end: int) -> list[Span]:
    """What lies between spans, from 0 to `end`."""
    edges = [0, *(edge for span in spans for edge in span), end]
    return [(edges[i], edges[i + 1]) for i in range(0, len(edges), 2) if edges[i] < edges[i + 1]]
