"""Registers models. The bytes are opened by the build worker only."""

from datetime import datetime

from pock_server.audit.service import Action, gone, made, record
from pock_server.blobs.repository import Blobs
from pock_server.clock import new_id
from pock_server.db.unit import Unit
from pock_server.http.problems import Failure, Problem
from pock_server.models.repository import Models
from pock_server.models.schemas import ModelIn, ModelOut
from pock_server.models.tables import ModelRecord


def create_model(unit: Unit, workspace_id: str, order: ModelIn, now: datetime) -> ModelRecord:
    """Register a model; every file of it must have been uploaded."""
    blobs = Blobs(unit.session, workspace_id)
    taken = {digest: blobs.take(digest, now) for digest in sorted({order.digest, *order.external.values()})}
    row = ModelRecord(
        id=new_id(now),
        workspace_id=workspace_id,
        created_at=now,
        name=order.name,
        digest=order.digest,
        size=taken[order.digest].size,
        external=dict(order.external),
    )
    Models(unit.session, workspace_id).add(row)
    blobs.use(row.id, taken)
    record(unit, Action.MODEL_CREATE, row, row.name, now, made(digest=row.digest, size=row.size))
    return row


def delete_model(unit: Unit, workspace_id: str, model_id: str, now: datetime) -> None:
    """Forget a model that no build was made of; a 409 `Problem` if one was."""
    models = Models(unit.session, workspace_id)
    row = models.require(model_id, lock=True)
    builds = models.count_builds(row.id)
    if builds:
        raise Problem(Failure.STATE_CONFLICT, f"Model {row.name} has {builds} builds; delete them first.")
    record(unit, Action.MODEL_DELETE, row, row.name, now, gone(digest=row.digest, size=row.size))
    Blobs(unit.session, workspace_id).release(row.id, now)
    unit.session.delete(row)


def describe(row: ModelRecord) -> ModelOut:
    """The model as the API shows it."""
    return ModelOut(
        id=row.id, name=row.name, digest=row.digest, size=row.size, external=row.external, created_at=row.created_at
    )
