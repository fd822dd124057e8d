"""Queries on releases of the agent."""

from sqlalchemy import func, select

from pock_server.agent_releases.tables import AgentReleaseRecord
from pock_server.db.repository import Repository
from pock_server.rollouts.tables import RolloutRecord


class AgentReleases(Repository[AgentReleaseRecord]):
    """The releases of one workspace."""

    row_class = AgentReleaseRecord
    noun = "agent release"

    def of_version(self, version: str) -> list[AgentReleaseRecord]:
        """The documents of one version."""
        return list(self.session.scalars(self.select().where(AgentReleaseRecord.version == version)))

    def count_rollouts(self, release_id: str) -> int:
        """Rollouts of a release, in whatever state."""
        query = select(func.count()).select_from(RolloutRecord).where(RolloutRecord.release_id == release_id)
        return self.session.scalar(query) or 0
