"""Registers datasets after reading their headers."""

from collections.abc import Sequence
from datetime import datetime

from pock_server.audit.service import Action, gone, made, record
from pock_server.blobs.repository import Blobs
from pock_server.blobs.store import BlobStore
from pock_server.blobs.tables import BlobRecord
from pock_server.clock import new_id
from pock_server.datasets.repository import Datasets
from pock_server.datasets.safetensors_header import MalformedSafetensors, TensorEntry, read_header
from pock_server.datasets.schemas import DatasetOut, TensorOut
from pock_server.datasets.tables import DatasetRecord
from pock_server.db.unit import Unit
from pock_server.http.problems import Failure, Problem
from pock_server.names.service import Pushed
from pock_server.searches.repository import Searches


def read_entries(store: BlobStore, blob: BlobRecord) -> tuple[TensorEntry, ...]:
    """The tensors of an uploaded file; a 422 `Problem` says what is wrong with one that is no dataset."""
    try:
        return read_header(lambda start, length: store.read_range(blob.digest, start, length), blob.size)
    except MalformedSafetensors as error:
        raise Problem(Failure.BAD_DATA, f"This is not a safetensors file: {error}.") from None


def create_dataset(
    unit: Unit, workspace_id: str, name: str, blob: BlobRecord, entries: tuple[TensorEntry, ...], now: datetime
) -> Pushed[DatasetRecord]:
    """Register a dataset whose tensors have been read as the next version of its name, or find the version of it that
    has the same file; a 422 `Problem` says what is wrong with their samples."""
    samples = _samples(entries)
    blobs, datasets = Blobs(unit.session, workspace_id), Datasets(unit.session, workspace_id)
    blobs.take(blob.digest, now)
    datasets.hold(name)
    same = datasets.newest(name, DatasetRecord.digest == blob.digest)
    if same is not None:
        return Pushed(same, created=False)
    row = DatasetRecord(
        id=new_id(now),
        workspace_id=workspace_id,
        created_at=now,
        name=name,
        version=datasets.next_version(name),
        digest=blob.digest,
        size=blob.size,
        samples=samples,
        tensors=[{"name": e.name, "dtype": e.dtype, "shape": list(e.shape)} for e in entries],
    )
    datasets.add(row)
    blobs.use(row.id, (row.digest,))
    new = made(version=row.version, digest=row.digest, samples=row.samples)
    record(unit, Action.DATASET_CREATE, row, row.name, now, new)
    return Pushed(row, created=True)


def delete_dataset(unit: Unit, workspace_id: str, dataset_id: str, now: datetime) -> None:
    """Forget a dataset that no run or search was asked to use; a 409 `Problem` if one was."""
    datasets = Datasets(unit.session, workspace_id)
    row = datasets.require(dataset_id, lock=True)
    if row.device_id is not None and row.gone_at is None:
        detail = f"Dataset {row.name} stays on a device; say there: pock-agent data remove {row.name}."
        raise Problem(Failure.STATE_CONFLICT, detail)
    runs = datasets.count_runs(row.id)
    if runs:
        raise Problem(Failure.STATE_CONFLICT, f"Dataset {row.name} has {runs} runs; delete them first.")
    searches = Searches(unit.session, workspace_id).count_of_dataset(row.id)
    if searches:
        raise Problem(Failure.STATE_CONFLICT, f"Dataset {row.name} has {searches} searches; delete them first.")
    old = gone(version=row.version, digest=row.digest, samples=row.samples)
    record(unit, Action.DATASET_DELETE, row, row.name, now, old)
    Blobs(unit.session, workspace_id).release(row.id, now)
    datasets.forget_tags(row)
    unit.session.delete(row)


def _samples(entries: tuple[TensorEntry, ...]) -> int:
    if not entries:
        raise Problem(Failure.BAD_DATA, "The dataset holds no tensors; give one per model input, and labels.")
    first = entries[0]
    for entry in entries:
        if not entry.shape:
            raise Problem(Failure.BAD_DATA, f"Tensor {entry.name!r} has no dimension; the first must count samples.")
        if entry.shape[0] != first.shape[0]:
            detail = (
                f"Tensor {entry.name!r} has {entry.shape[0]} samples, but {first.name!r} has {first.shape[0]}; "
                "all need the same."
            )
            raise Problem(Failure.BAD_DATA, detail)
    if first.shape[0] == 0:
        raise Problem(Failure.BAD_DATA, "The dataset holds zero samples.")
    return first.shape[0]


def show(datasets: Datasets, rows: Sequence[DatasetRecord]) -> list[DatasetOut]:
    """Datasets as the API shows them."""
    tags, uses = datasets.tags_of(rows), datasets.uses(row.id for row in rows)
    return [_describe(row, tags[row.id], *uses.get(row.id, (0, None))) for row in rows]


def _describe(row: DatasetRecord, tags: list[str], runs: int, used_at: datetime | None) -> DatasetOut:
    return DatasetOut(
        id=row.id,
        name=row.name,
        version=row.version,
        tags=tags,
        digest=row.digest,
        size=row.size,
        samples=row.samples,
        tensors=[TensorOut(**tensor) for tensor in row.tensors],
        device_id=row.device_id,
        gone_at=row.gone_at,
        runs=runs,
        used_at=used_at,
        created_at=row.created_at,
    )
