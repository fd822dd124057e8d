"""Models over HTTP."""

from fastapi import APIRouter

from pock_server.dependencies import ModelWriter, Reader, ServicesDep
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS
from pock_server.idempotency.header import Once
from pock_server.models.repository import Models
from pock_server.models.schemas import ModelIn, ModelOut, ModelPage
from pock_server.models.service import create_model as create
from pock_server.models.service import delete_model as delete
from pock_server.models.service import describe
from pock_server.quotas.service import Quota, check

router = APIRouter(prefix="/models", tags=["models"], responses=PROBLEMS)


@router.post("", status_code=201)
def create_model(body: ModelIn, caller: ModelWriter, services: ServicesDep, once: Once) -> ModelOut:
    """Register an uploaded ONNX file as a model."""
    with services.database.write(caller.actor) as unit:
        row = create(unit, caller.workspace_id, body, services.clock.now())
        check(unit, services.settings, caller.workspace_id, services.clock.now(), Quota.MODELS)
        return once(unit, describe(row), 201)


@router.get("")
def list_models(caller: Reader, services: ServicesDep, page: PageQuery) -> ModelPage:
    """List models."""
    with services.database.read() as session:
        found = Models(session, caller.workspace_id).page(page)
        return ModelPage(items=[describe(row) for row in found.rows], next_cursor=found.next_cursor)


@router.get("/{model_id}")
def get_model(model_id: Id, caller: Reader, services: ServicesDep) -> ModelOut:
    """One model."""
    with services.database.read() as session:
        return describe(Models(session, caller.workspace_id).require(model_id))


@router.delete("/{model_id}", status_code=204)
def delete_model(model_id: Id, caller: ModelWriter, services: ServicesDep) -> None:
    """Forget a model without builds."""
    with services.database.write(caller.actor) as unit:
        delete(unit, caller.workspace_id, model_id, services.clock.now())
