"""Datasets that stay on a device: what the device tells of them, and whether a run may be asked for with one."""

from datetime import datetime

from pock_server.clock import new_id
from pock_server.datasets.repository import Datasets
from pock_server.datasets.schemas import LocalDataIn, LocalDatasetIn
from pock_server.datasets.tables import DatasetRecord
from pock_server.db.unit import Unit
from pock_server.devices.features import Feature, require
from pock_server.devices.tables import DeviceRecord
from pock_server.http.problems import Failure, Problem


def take_listing(unit: Unit, device: DeviceRecord, told: LocalDataIn, now: datetime) -> None:
    """Keep what the device, whose row is locked, has now: new data is a new version of its name; what is missing is
    gone, and forgotten unless runs were made of it."""
    datasets = Datasets(unit.session, device.workspace_id)
    wanted = {one.name: one for one in told.datasets}
    known = {row.name for row in datasets.on_device(device.id) if _same(row, wanted.get(row.name))}
    for row in datasets.on_device(device.id):
        if row.name not in known:
            _lose(datasets, row, now)
    for name in sorted(set(wanted) - known):  # names are locked in one order: nobody waits in a circle
        datasets.hold(name)
        datasets.add(_row(device, wanted[name], datasets.next_version(name), now))
    device.data_digest = told.digest
    unit.session.flush()


def _same(row: DatasetRecord, told: LocalDatasetIn | None) -> bool:
    return told is not None and row.digest == told.digest


def _lose(datasets: Datasets, row: DatasetRecord, now: datetime) -> None:
    if datasets.count_runs(row.id):
        row.gone_at = now
    else:
        datasets.forget_tags(row)
        datasets.session.delete(row)
    datasets.session.flush()


def _row(device: DeviceRecord, told: LocalDatasetIn, version: int, now: datetime) -> DatasetRecord:
    return DatasetRecord(
        id=new_id(now),
        workspace_id=device.workspace_id,
        created_at=now,
        name=told.name,
        version=version,
        digest=told.digest,
        size=told.size,
        samples=told.samples,
        tensors=[tensor.model_dump() for tensor in told.tensors],
        device_id=device.id,
    )


def find_local(datasets: Datasets, device: DeviceRecord, name: str) -> str:
    """The id of what stays on the device under this name; a 409 `Problem` if nothing does."""
    row = datasets.local(device.id, name)
    if row is None:
        detail = f"No data of device {device.name} is named {name!r}; say there: pock-agent data add {name} PATH."
        raise Problem(Failure.STATE_CONFLICT, detail)
    return row.id


def require_usable(dataset: DatasetRecord, device: DeviceRecord) -> None:
    """Raise a 409 `Problem` if the dataset stays on another device, or this one has it no more."""
    if dataset.device_id is None:
        return
    if dataset.device_id != device.id:
        detail = f"Dataset {dataset.name} (version {dataset.version}) stays on another device than {device.name}."
        raise Problem(Failure.STATE_CONFLICT, detail)
    if dataset.gone_at is not None:
        detail = f"Device {device.name} no longer has dataset {dataset.name} (version {dataset.version})."
        raise Problem(Failure.STATE_CONFLICT, detail)
    require(device, Feature.LOCAL_DATA)
