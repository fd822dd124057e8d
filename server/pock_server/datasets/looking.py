"""Looks into datasets that the service holds: some samples, the numbers of each tensor, how often each label occurs.

Whoever pushed a file may have written anything into it. Nothing here reads more than `MOST_COUNTED` numbers of a file
for one request, in pieces, and few requests read at once.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import fsum, inf, isfinite, isnan, prod
from threading import BoundedSemaphore

from pock_server.blobs.store import BlobStore
from pock_server.blobs.tables import BlobRecord
from pock_server.datasets.safetensors_header import TensorEntry
from pock_server.datasets.schemas import ClassOut, LabelsOut, PreviewOut, StatisticsOut, TensorStatisticsOut
from pock_server.datasets.service import read_entries
from pock_server.datasets.values import ITEM_BYTES, WHOLE, decode, readable
from pock_server.http.problems import Failure, Problem

MOST_COUNTED = 4 << 20
"""Numbers of a file that are counted: they take a few hundred milliseconds."""
MOST_VALUES = 200_000
"""Numbers in a preview: one sample of 3 x 224 x 224 has 150,528."""
MOST_CLASSES = 1000
_PIECE = 64 << 10
"""Numbers that are read at once: no other thread runs while they are added up."""
_MOST_DISTINCT = 10_000
_AT_ONCE = BoundedSemaphore(2)
_PATIENCE_SECONDS = 5
_SCALE = 2.0**-20
"""Of sums: doubles may sum beyond their range, and so many of them, made smaller, do not."""


@dataclass(frozen=True)
class _File:
    """A dataset's file and where its tensors lie."""

    store: BlobStore
    blob: BlobRecord
    entries: tuple[TensorEntry, ...]

    def entry(self, name: str) -> TensorEntry:
        for entry in self.entries:
            if entry.name == name:
                return entry
        names = ", ".join(sorted(entry.name for entry in self.entries)[:20])
        raise Problem(Failure.BAD_ARGUMENT, f"query.tensor: the dataset has no tensor {name!r}; it has {names}.")

    def read(self, entry: TensorEntry, start: int, length: int) -> bytes:
        """Bytes of a tensor, which the header promises to be there: tensors cover the file to its end."""
        data_start = self.blob.size - self.entries[-1].stop
        return self.store.read_range(self.blob.digest, data_start + entry.start + start, length)

    def pieces(self, entry: TensorEntry, most: int) -> Iterator[Sequence[float]]:
        """Numbers of a tensor: all of them, or pieces of equal length evenly spread over it, `most` numbers in all."""
        item = ITEM_BYTES[entry.dtype]
        total = (entry.stop - entry.start) // item
        if total <= most:
            step = length = _PIECE
            count = -(-total // step)
        else:
            count = -(-most // _PIECE)
            step, length = total // count, most // count
        for index in range(count):
            start = index * step
            yield decode(self.read(entry, start * item, min(length, total - start) * item), entry.dtype)


@contextmanager
def _turn() -> Iterator[None]:
    if not _AT_ONCE.acquire(timeout=_PATIENCE_SECONDS):
        detail = "Too many datasets are being looked into at once; try again."
        raise Problem(Failure.BUSY, detail, {"Retry-After": "2"})
    try:
        yield
    finally:
        _AT_ONCE.release()


def _shown(entry: TensorEntry) -> TensorEntry:
    if entry.dtype not in ITEM_BYTES:
        detail = f"Tensor {entry.name!r} has dtype {entry.dtype}, which is not shown; download the file to look at it."
        raise Problem(Failure.BAD_ARGUMENT, detail)
    return entry


def preview(store: BlobStore, blob: BlobRecord, tensor: str, offset: int, count: int) -> PreviewOut:
    """Samples `offset` to `offset + count` of a tensor, as many of them as fit `MOST_VALUES`; of one sample that alone
    has more, its first numbers."""
    with _turn():
        file = _File(store, blob, read_entries(store, blob))
        entry = _shown(file.entry(tensor))
        values, item = prod(entry.shape[1:]), ITEM_BYTES[entry.dtype]
        if offset >= entry.shape[0]:
            raise Problem(Failure.BAD_ARGUMENT, f"query.offset: the dataset has {entry.shape[0]} samples.")
        shown = min(values, MOST_VALUES)
        count = max(1, min(count, entry.shape[0] - offset, MOST_VALUES // max(1, values)))
        data = file.read(entry, offset * values * item, ((count - 1) * values + shown) * item)
        numbers = readable(decode(data, entry.dtype), entry.dtype)
        samples = [numbers[at * values : at * values + shown] for at in range(count)]
    return PreviewOut(
        tensor=entry.name,
        dtype=entry.dtype,
        shape=list(entry.shape),
        offset=offset,
        values=values,
        samples=samples,
    )


@dataclass
class _Statistics:
    """Numbers seen so far."""

    counted: int = 0
    finite: int = 0
    nan: int = 0
    least: float = inf
    most: float = -inf
    sums: list[float] = field(default_factory=list)

    def see(self, numbers: Sequence[float]) -> None:
        self.counted += len(numbers)
        total = sum(numbers) * _SCALE
        if not isfinite(total):
            self.nan += sum(map(isnan, numbers))
            numbers = [number for number in numbers if isfinite(number)]
            total = fsum(number * _SCALE for number in numbers)
        if numbers:
            self.finite += len(numbers)
            self.sums.append(total)
            self.least, self.most = min(self.least, min(numbers)), max(self.most, max(numbers))

    def told(self, entry: TensorEntry) -> TensorStatisticsOut:
        mean = sum(part / self.finite for part in self.sums) / _SCALE if self.finite else None
        return TensorStatisticsOut(
            tensor=entry.name,
            counted=self.counted,
            of=prod(entry.shape),
            min=self.least if self.finite else None,
            max=self.most if self.finite else None,
            mean=mean if mean is not None and isfinite(mean) else None,
            nan=self.nan,
            infinite=self.counted - self.finite - self.nan,
        )


def statistics(store: BlobStore, blob: BlobRecord) -> StatisticsOut:
    """Least, largest and mean number of each tensor; of large ones, of parts that are evenly spread."""
    with _turn():
        file = _File(store, blob, read_entries(store, blob))
        entries = [entry for entry in file.entries if entry.dtype in ITEM_BYTES]
        share = MOST_COUNTED // max(1, len(entries))
        found = []
        for entry in entries:
            seen = _Statistics()
            for numbers in file.pieces(entry, share):
                seen.see(numbers)
            found.append(seen.told(entry))
    return StatisticsOut(tensors=found)


def labels(store: BlobStore, blob: BlobRecord, tensor: str) -> LabelsOut:
    """How often each number occurs in a tensor of whole numbers; no classes where too many numbers differ."""
    with _turn():
        file = _File(store, blob, read_entries(store, blob))
        entry = file.entry(tensor)
        if entry.dtype not in WHOLE:
            detail = f"Tensor {entry.name!r} has dtype {entry.dtype}; only whole numbers are counted as labels."
            raise Problem(Failure.BAD_ARGUMENT, detail)
        counts: Counter[float] = Counter()
        counted = 0
        for numbers in file.pieces(entry, MOST_COUNTED):
            counts.update(numbers)
            counted += len(numbers)
            if len(counts) > _MOST_DISTINCT:
                return LabelsOut(tensor=tensor, counted=counted, of=prod(entry.shape), distinct=None, classes=[])
    classes = [ClassOut(label=int(label), count=count) for label, count in counts.most_common(MOST_CLASSES)]
    return LabelsOut(
        tensor=tensor,
        counted=counted,
        of=prod(entry.shape),
        distinct=len(counts),
        classes=sorted(classes, key=lambda one: one.label),
    )
