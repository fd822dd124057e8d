"""Queries on models."""

from pock_server.db.repository import Repository
from pock_server.models.tables import ModelRecord


class Models(Repository[ModelRecord]):
    """The models of one workspace."""

    row_class = ModelRecord
    noun = "model"
