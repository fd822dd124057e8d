"""Queries on models."""

from collections.abc import Mapping

from sqlalchemy import func, select

from pock_server.builds.schemas import BuildKind
from pock_server.builds.tables import BuildRecord
from pock_server.models.tables import ModelRecord
from pock_server.names.repository import VersionedRepository
from pock_server.names.tables import Kind


class Models(VersionedRepository[ModelRecord]):
    """The models of one workspace."""

    row_class = ModelRecord
    noun = "model"
    kind = Kind.MODEL
    digest = "digest"

    def find_same(self, name: str, digest: str, external: Mapping[str, str]) -> ModelRecord | None:
        """The newest version of this name with these files."""
        mine = self.select().where(ModelRecord.name == name, ModelRecord.digest == digest)
        rows = self.session.scalars(mine.order_by(ModelRecord.version.desc()))
        return next((row for row in rows if row.external == external), None)

    def count_builds(self, model_id: str) -> int:
        """Builds of the model, in whatever state, but those of trials."""
        mine = (BuildRecord.model_id == model_id, BuildRecord.kind == BuildKind.MODEL)
        return self.session.scalar(select(func.count()).select_from(BuildRecord).where(*mine)) or 0
