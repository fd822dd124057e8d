"""Queries on federations and their rounds."""

from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from pock_server.db.repository import Repository
from pock_server.federations.lifecycle import OPEN
from pock_server.federations.tables import FederationRecord, FederationRoundRecord
from pock_server.runs.tables import RunRecord

ROUNDS_AT_ONCE = 100


class Federations(Repository[FederationRecord]):
    """The federations of one workspace."""

    row_class = FederationRecord
    noun = "federation"

    def rounds(self, federation: FederationRecord, after: int) -> list[FederationRoundRecord]:
        """Its rounds with numbers above `after`, in order, at most `ROUNDS_AT_ONCE`."""
        query = select(FederationRoundRecord).where(
            FederationRoundRecord.federation_id == federation.id, FederationRoundRecord.number > after
        )
        return list(self.session.scalars(query.order_by(FederationRoundRecord.number).limit(ROUNDS_AT_ONCE)))

    def present(self, federation: FederationRecord) -> FederationRoundRecord:
        """The round that it is at, which has begun."""
        return self.session.get_one(FederationRoundRecord, (federation.id, federation.round))

    def runs(self, federation: FederationRecord, of: FederationRoundRecord) -> list[RunRecord]:
        """The runs of a round, in the order of its members."""
        ids = [member["run_id"] for member in of.members]
        query = select(RunRecord).where(RunRecord.workspace_id == self.workspace_id, RunRecord.id.in_(ids))
        found = {run.id: run for run in self.session.scalars(query.where(RunRecord.part_of == federation.id))}
        return [found[run_id] for run_id in ids if run_id in found]

    def forget_rounds(self, federation: FederationRecord) -> None:
        """Delete the rounds of a federation that is being deleted."""
        self.session.execute(delete(FederationRoundRecord).where(FederationRoundRecord.federation_id == federation.id))


def open_federations(session: Session, now: datetime) -> list[tuple[str, str]]:
    """Workspace and id of all that are not over."""
    query = select(FederationRecord.workspace_id, FederationRecord.id).where(FederationRecord.state.in_(OPEN))
    return [(workspace_id, row_id) for workspace_id, row_id in session.execute(query)]
