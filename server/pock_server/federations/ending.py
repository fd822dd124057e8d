"""What is done with a round's updates, and how a federation fails."""

from datetime import datetime

from pock_server.blobs.repository import Blobs
from pock_server.db.unit import Unit
from pock_server.federations.lifecycle import FEDERATION_LIFECYCLE
from pock_server.federations.repository import Federations
from pock_server.federations.schemas import FederationState
from pock_server.federations.tables import FederationRecord


def fail(unit: Unit, row: FederationRecord, code: int, detail: str, now: datetime) -> None:
    """End a federation that cannot go on."""
    failure = {"code": code, "detail": detail}
    FEDERATION_LIFECYCLE.move(unit, row, FederationState.FAILED, now, failure=failure, finished_at=now, ends_at=None)


def drop_updates(unit: Unit, row: FederationRecord, now: datetime) -> None:
    """What one device sent in the present round says more of it than the sum does: nobody can fetch it any more."""
    federations = Federations(unit.session, row.workspace_id)
    for run in federations.runs(row, federations.present(row)):
        Blobs(unit.session, row.workspace_id).release(run.id, now)
        run.weights_digest = None
