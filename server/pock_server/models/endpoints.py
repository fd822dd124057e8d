"""Models over HTTP."""

from fastapi import APIRouter, Response

from pock_server.dependencies import ModelWriter, Reader, ServicesDep
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS
from pock_server.idempotency.header import Once
from pock_server.models import service
from pock_server.models.repository import Models
from pock_server.models.schemas import ModelIn, ModelOut, ModelPage
from pock_server.names.schemas import NameGlob, Ref, Sort, Sorting, Tag
from pock_server.names.service import tag, untag
from pock_server.quotas.service import Quota, check

router = APIRouter(prefix="/models", tags=["models"], responses=PROBLEMS)


@router.post(
    "",
    status_code=201,
    responses={200: {"model": ModelOut, "description": "The name has a version with the same files."}},
)
def create_model(body: ModelIn, response: Response, caller: ModelWriter, services: ServicesDep, once: Once) -> ModelOut:
    """Register an uploaded ONNX file as the next version of a model."""
    with services.database.write(caller.actor) as unit:
        pushed = service.create_model(unit, caller.workspace_id, body, services.clock.now())
        if pushed.created:
            check(unit, services.settings, caller.workspace_id, services.clock.now(), Quota.MODELS)
        response.status_code = 201 if pushed.created else 200
        (shown,) = service.show(Models(unit.session, caller.workspace_id), [pushed.row])
        return once(unit, shown, response.status_code)


@router.get("")
def list_models(
    caller: Reader,
    services: ServicesDep,
    page: PageQuery,
    ref: Ref = None,
    name: NameGlob = None,
    sort: Sorting = Sort.NEWEST,
) -> ModelPage:
    """List models."""
    with services.database.read() as session:
        models = Models(session, caller.workspace_id)
        found = models.sorted_page(page, sort, *models.asked(ref, name))
        return ModelPage(items=service.show(models, found.rows), next_cursor=found.next_cursor)


@router.get("/{model_id}")
def get_model(model_id: Id, caller: Reader, services: ServicesDep) -> ModelOut:
    """One model."""
    with services.database.read() as session:
        models = Models(session, caller.workspace_id)
        (shown,) = service.show(models, [models.require(model_id)])
        return shown


@router.put("/{model_id}/tags/{tag_name}")
def tag_model(model_id: Id, tag_name: Tag, caller: ModelWriter, services: ServicesDep) -> ModelOut:
    """Have a tag name this version of the model, whichever it named before."""
    with services.database.write(caller.actor) as unit:
        models = Models(unit.session, caller.workspace_id)
        row = tag(unit, models, model_id, tag_name, services.clock.now())
        (shown,) = service.show(models, [row])
        return shown


@router.delete("/{model_id}/tags/{tag_name}", status_code=204)
def untag_model(model_id: Id, tag_name: Tag, caller: ModelWriter, services: ServicesDep) -> None:
    """Take a tag away from this version of the model."""
    with services.database.write(caller.actor) as unit:
        untag(unit, Models(unit.session, caller.workspace_id), model_id, tag_name, services.clock.now())


@router.delete("/{model_id}", status_code=204)
def delete_model(model_id: Id, caller: ModelWriter, services: ServicesDep) -> None:
    """Forget a model without builds."""
    with services.database.write(caller.actor) as unit:
        service.delete_model(unit, caller.workspace_id, model_id, services.clock.now())
