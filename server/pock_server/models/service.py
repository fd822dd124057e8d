"""Registers models. The bytes are opened by the build worker only."""

from datetime import datetime

from pock_server.audit.service import Action, made, record
from pock_server.blobs.repository import Blobs
from pock_server.clock import new_id
from pock_server.db.unit import Unit
from pock_server.models.repository import Models
from pock_server.models.schemas import ModelIn, ModelOut
from pock_server.models.tables import ModelRecord


def create_model(unit: Unit, workspace_id: str, order: ModelIn, now: datetime) -> ModelRecord:
    """Register a model; every file of it must have been uploaded."""
    blobs = Blobs(unit.session, workspace_id)
    main = blobs.require(order.digest)
    for digest in order.external.values():
        blobs.require(digest)
    row = ModelRecord(
        id=new_id(now),
        workspace_id=workspace_id,
        created_at=now,
        name=order.name,
        digest=order.digest,
        size=main.size,
        external=dict(order.external),
    )
    Models(unit.session, workspace_id).add(row)
    record(unit, Action.MODEL_CREATE, row, row.name, now, made(digest=row.digest, size=row.size))
    return row


def describe(row: ModelRecord) -> ModelOut:
    """The model as the API shows it."""
    return ModelOut(
        id=row.id, name=row.name, digest=row.digest, size=row.size, external=row.external, created_at=row.created_at
    )
