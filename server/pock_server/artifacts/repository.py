"""Queries on artifacts."""

from typing import Any

from sqlalchemy.orm import Session

from pock_server.artifacts.tables import ArtifactRecord
from pock_server.db.insert import insert_if_absent
from pock_server.http.problems import Failure, Problem


class Artifacts:
    """The artifacts of one workspace."""

    def __init__(self, session: Session, workspace_id: str) -> None:
        self.session = session
        self.workspace_id = workspace_id

    def find(self, digest: str) -> ArtifactRecord | None:
        """The artifact with this digest."""
        return self.session.get(ArtifactRecord, (self.workspace_id, digest))

    def require(self, digest: str) -> ArtifactRecord:
        """The artifact with this digest; raises a 404 `Problem` if the workspace has none."""
        row = self.find(digest)
        if row is None:
            raise Problem(Failure.NOT_FOUND, f"There is no artifact {digest}.")
        return row

    def give_up(self, digest: str, maker_id: str | None) -> None:
        """A build no longer needs the artifact: another one, `maker_id`, does, or it goes."""
        row = self.find(digest)
        if row is not None and maker_id is None:
            self.session.delete(row)
        elif row is not None and maker_id is not None:
            row.build_id = maker_id
        self.session.flush()

    def add(self, **values: Any) -> None:
        """Insert the artifact unless another build made the same bytes before."""
        insert_if_absent(self.session, ArtifactRecord, workspace_id=self.workspace_id, **values)
