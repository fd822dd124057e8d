"""Queries on models."""

from collections.abc import Iterable, Mapping
from datetime import datetime

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

    def uses(self, model_ids: Iterable[str]) -> dict[str, tuple[int, datetime]]:
        """How many builds each of these models has but those of trials, and when the last was asked for; by its id,
        of those that have any."""
        mine = (
            BuildRecord.workspace_id == self.workspace_id,
            BuildRecord.kind == BuildKind.MODEL,
            BuildRecord.model_id.in_(list(model_ids)),
        )
        counted = select(BuildRecord.model_id, func.count(), func.max(BuildRecord.created_at)).where(*mine)
        rows = self.session.execute(counted.group_by(BuildRecord.model_id))
        return {model_id: (count, last) for model_id, count, last in rows}
