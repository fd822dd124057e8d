"""Queries on datasets."""

from sqlalchemy import func, or_, select

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

    def count_runs(self, dataset_id: str) -> int:
        """Runs on the dataset, in whatever state."""
        either = or_(RunRecord.dataset_id == dataset_id, RunRecord.eval_dataset_id == dataset_id)
        return self.session.scalar(select(func.count()).select_from(RunRecord).where(either)) or 0
