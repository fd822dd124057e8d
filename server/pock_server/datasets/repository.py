"""Queries on datasets."""

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import ColumnElement, and_, func, or_, select

from pock_server.datasets.tables import DatasetRecord
from pock_server.names.repository import VersionedRepository
from pock_server.names.tables import Kind
from pock_server.runs.tables import RunRecord


class Datasets(VersionedRepository[DatasetRecord]):
    """The datasets of one workspace."""

    row_class = DatasetRecord
    noun = "dataset"
    kind = Kind.DATASET
    digest = "digest"

    def newest(self, name: str, *filters: ColumnElement[bool]) -> DatasetRecord | None:
        """The highest version of this name that meets the filters. What stays on a device is not meant by its name
        alone: each device may have something else of that name."""
        return super().newest(name, DatasetRecord.device_id.is_(None), *filters)

    def on_device(self, device_id: str) -> list[DatasetRecord]:
        """What stays on the device, oldest first."""
        mine = (DatasetRecord.device_id == device_id, DatasetRecord.gone_at.is_(None))
        return list(self.session.scalars(self.select().where(*mine).order_by(DatasetRecord.created_at)))

    def local(self, device_id: str, name: str) -> DatasetRecord | None:
        """What stays on the device under this name."""
        return next((row for row in self.on_device(device_id) if row.name == name), None)

    def keepers(self, name: str) -> set[str]:
        """The ids of the devices that keep something under this name."""
        there = (DatasetRecord.name == name, DatasetRecord.device_id.is_not(None), DatasetRecord.gone_at.is_(None))
        return {row.device_id for row in self.session.scalars(self.select().where(*there)) if row.device_id}

    def count_runs(self, dataset_id: str) -> int:
        """Runs on the dataset, in whatever state."""
        either = or_(RunRecord.dataset_id == dataset_id, RunRecord.eval_dataset_id == dataset_id)
        return self.session.scalar(select(func.count()).select_from(RunRecord).where(either)) or 0

    def uses(self, dataset_ids: Iterable[str]) -> dict[str, tuple[int, datetime]]:
        """How many runs each of these datasets has, and when the last was asked for; by its id, of those that have
        any."""
        ids = list(dataset_ids)
        used = and_(
            DatasetRecord.workspace_id == self.workspace_id,
            DatasetRecord.id.in_(ids),
            RunRecord.workspace_id == self.workspace_id,
            or_(RunRecord.dataset_id == DatasetRecord.id, RunRecord.eval_dataset_id == DatasetRecord.id),
        )
        counted = select(DatasetRecord.id, func.count(), func.max(RunRecord.created_at)).where(used)
        rows = self.session.execute(counted.group_by(DatasetRecord.id))
        return {dataset_id: (count, last) for dataset_id, count, last in rows}
