"""Queries on datasets."""

from pock_server.datasets.tables import DatasetRecord
from pock_server.db.repository import Repository


class Datasets(Repository[DatasetRecord]):
    """The datasets of one workspace."""

    row_class = DatasetRecord
    noun = "dataset"
