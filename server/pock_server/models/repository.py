"""Queries on models."""

from sqlalchemy import func, select

from pock_server.builds.tables import BuildRecord
from pock_server.db.repository import Repository
from pock_server.models.tables import ModelRecord


class Models(Repository[ModelRecord]):
    """The models of one workspace."""

    row_class = ModelRecord
    noun = "model"

    def count_builds(self, model_id: str) -> int:
        """Builds of the model, in whatever state."""
        query = select(func.count()).select_from(BuildRecord).where(BuildRecord.model_id == model_id)
        return self.session.scalar(query) or 0
