"""Registers models. The bytes are opened by the build worker only."""

from collections.abc import Sequence
from datetime import datetime

from pock_server.audit.service import Action, gone, made, record
from pock_server.blobs.repository import Blobs
from pock_server.clock import new_id
from pock_server.db.unit import Unit
from pock_server.http.problems import Failure, Problem
from pock_server.models.repository import Models
from pock_server.models.schemas import ModelIn, ModelOut
from pock_server.models.tables import ModelRecord
from pock_server.names.service import Pushed
from pock_server.searches.repository import Searches
from pock_server.tuning.trials import forget_trials


def create_model(unit: Unit, workspace_id: str, order: ModelIn, now: datetime) -> Pushed[ModelRecord]:
    """Register a model as the next version of its name, or find the version of it that has the same files.

    Every file must have been uploaded.
    """
    blobs, models = Blobs(unit.session, workspace_id), Models(unit.session, workspace_id)
    taken = {digest: blobs.take(digest, now) for digest in sorted({order.digest, *order.external.values()})}
    models.hold(order.name)
    same = models.find_same(order.name, order.digest, order.external)
    if same is not None:
        return Pushed(same, created=False)
    row = ModelRecord(
        id=new_id(now),
        workspace_id=workspace_id,
        created_at=now,
        name=order.name,
        version=models.next_version(order.name),
        digest=order.digest,
        size=taken[order.digest].size,
        external=dict(order.external),
    )
    models.add(row)
    blobs.use(row.id, taken)
    record(unit, Action.MODEL_CREATE, row, row.name, now, made(version=row.version, digest=row.digest, size=row.size))
    return Pushed(row, created=True)


def delete_model(unit: Unit, workspace_id: str, model_id: str, now: datetime) -> None:
    """Forget a model that no build was made of, and nothing searched for; a 409 `Problem` if it was."""
    models = Models(unit.session, workspace_id)
    row = models.require(model_id, lock=True)
    builds = models.count_builds(row.id)
    if builds:
        raise Problem(Failure.STATE_CONFLICT, f"Model {row.name} has {builds} builds; delete them first.")
    searches = Searches(unit.session, workspace_id).count_of_model(row.id)
    if searches:
        raise Problem(Failure.STATE_CONFLICT, f"Model {row.name} has {searches} searches; delete them first.")
    forget_trials(unit, workspace_id, row.id, now)
    record(unit, Action.MODEL_DELETE, row, row.name, now, gone(version=row.version, digest=row.digest, size=row.size))
    Blobs(unit.session, workspace_id).release(row.id, now)
    models.forget_tags(row)
    unit.session.delete(row)


def show(models: Models, rows: Sequence[ModelRecord]) -> list[ModelOut]:
    """Models as the API shows them."""
    tags, uses = models.tags_of(rows), models.uses(row.id for row in rows)
    return [_describe(row, tags[row.id], *uses.get(row.id, (0, None))) for row in rows]


def _describe(row: ModelRecord, tags: list[str], builds: int, used_at: datetime | None) -> ModelOut:
    return ModelOut(
        id=row.id,
        name=row.name,
        version=row.version,
        tags=tags,
        digest=row.digest,
        size=row.size,
        external=row.external,
        builds=builds,
        used_at=used_at,
        created_at=row.created_at,
    )
