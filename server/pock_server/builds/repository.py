"""Queries on builds, and on all else that build workers do."""

from datetime import datetime

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from pock_server.blobs.tables import BlobUseRecord
from pock_server.builds.schemas import BuildKind, BuildState
from pock_server.builds.tables import BuildRecord
from pock_server.db.repository import Repository
from pock_server.federations.tables import FederationRecord
from pock_server.names.repository import VersionedRepository
from pock_server.names.tables import Kind
from pock_server.runs.tables import RunRecord

_LIVE = (BuildState.QUEUED, BuildState.RUNNING, BuildState.SUCCEEDED)


class AllBuilds(Repository[BuildRecord]):
    """All that build workers do in one workspace: builds, trials, searches."""

    row_class = BuildRecord
    noun = "build"

    def find_live(self, key: str) -> BuildRecord | None:
        """What the same request asked for before, if it is waiting, running or done."""
        return self.session.scalars(
            self.select().where(BuildRecord.key == key, BuildRecord.state.in_(_LIVE), BuildRecord.retired_at.is_(None))
        ).one_or_none()


class Builds(VersionedRepository[BuildRecord]):
    """The builds of one workspace."""

    row_class = BuildRecord
    noun = "build"
    kind = Kind.BUILD
    digest = "artifact_digest"

    def select(self) -> Select[BuildRecord]:
        """All builds of the workspace: no searches."""
        return super().select().where(BuildRecord.kind != BuildKind.SEARCH)

    def count_federations(self, build_id: str) -> int:
        """Federations of the build, in whatever state."""
        query = select(func.count()).select_from(FederationRecord).where(FederationRecord.build_id == build_id)
        return self.session.scalar(query) or 0

    def count_runs(self, build_id: str) -> int:
        """Runs of the build, in whatever state."""
        query = select(func.count()).select_from(RunRecord).where(RunRecord.build_id == build_id)
        return self.session.scalar(query) or 0

    def other_maker(self, row: BuildRecord) -> BuildRecord | None:
        """Another build that made the same artifact and still needs it."""
        same = (BuildRecord.artifact_digest == row.artifact_digest, BuildRecord.id != row.id)
        using = select(BlobUseRecord.owner_id).where(BlobUseRecord.digest == row.artifact_digest)
        return self.session.scalars(self.select().where(*same, BuildRecord.id.in_(using)).limit(1)).first()


def running_builds(session: Session, lease_expired_at: datetime) -> list[BuildRecord]:
    """Running builds of all workspaces whose runner has been silent since before this moment, for the sweeper."""
    query = select(BuildRecord).where(BuildRecord.state == BuildState.RUNNING)
    return list(session.scalars(query.where(BuildRecord.lease_expires_at < lease_expired_at)))
