"""Questions on models over HTTP."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response
from pydantic import BaseModel, ValidationError

from pock_server.auth.service import Caller
from pock_server.checks.clerk import Left, Refusal
from pock_server.checks.desk import Desk
from pock_server.checks.schemas import (
    ApproximationIn,
    ApproximationOut,
    CheckOut,
    EstimateIn,
    EstimateOut,
    GraphIn,
    GraphOut,
    TargetName,
)
from pock_server.dependencies import Reader, ServicesDep
from pock_server.http.fields import Id
from pock_server.http.problems import PROBLEMS, Failure, FieldError, Problem
from pock_server.models.repository import Models
from pock_server.services import Services

router = APIRouter(prefix="/models", tags=["models"], responses=PROBLEMS)

_Answer = TypeVar("_Answer", bound=BaseModel)
_REFUSALS = {
    3003: Failure.BAD_RECIPE,
    10003: Failure.BAD_ARGUMENT,
    2003: Failure.CHECK_TOO_LARGE,
    1000: Failure.CHECK_FAILED,
}


@router.get("/{model_id}/check", responses={200: {"model": CheckOut}})
async def check_model(
    model_id: Id,
    request: Request,
    caller: Reader,
    services: ServicesDep,
    target: TargetName = "host",
    batch: Annotated[int | None, Query(ge=1, le=1 << 20, description="None: the model's own.")] = None,
) -> Response:
    """What is in a model: operators, layers, and what training all of it, its head or its biases would take."""
    question = {"ask": "check", "target": target, "batch": batch}
    return await _answer(request, caller, services, model_id, question, CheckOut)


@router.post("/{model_id}/estimate", responses={200: {"model": EstimateOut}})
async def estimate_recipe(
    model_id: Id, body: EstimateIn, request: Request, caller: Reader, services: ServicesDep
) -> Response:
    """What training by a recipe would take on a target, as `pock check` plans it; nothing is built."""
    question = {"ask": "estimate", **body.model_dump(include={"recipe", "target", "threads"})}
    question["memory"] = body.memory_bytes
    return await _answer(request, caller, services, model_id, question, EstimateOut)


@router.post("/{model_id}/approximation", responses={200: {"model": ApproximationOut}})
async def approximate_recipe(
    model_id: Id, body: ApproximationIn, request: Request, caller: Reader, services: ServicesDep
) -> Response:
    """About what training by a recipe would take, in milliseconds: told by schemes of the model that were planned
    before. The first questions on a model, a target and an optimizer have it learn, a second at a time."""
    question = {"ask": "approximate", **body.model_dump()}
    desk: Desk = request.app.state.approximating
    return await _answer(request, caller, services, model_id, question, ApproximationOut, desk)


@router.post("/{model_id}/graph", responses={200: {"model": GraphOut}})
async def picture_graph(
    model_id: Id, body: GraphIn, request: Request, caller: Reader, services: ServicesDep
) -> Response:
    """The model's graph, or with a recipe that of its training step after the backward part was pruned."""
    return await _answer(request, caller, services, model_id, {"ask": "graph", **body.model_dump()}, GraphOut)


async def _answer(
    request: Request,
    caller: Caller,
    services: Services,
    model_id: str,
    question: dict[str, Any],
    kind: type[_Answer],
    desk: Desk | None = None,
) -> Response:
    """Ask, and pass on what is as it should be."""
    await run_in_threadpool(_require, services, caller, model_id, question["target"])
    asked: Desk = desk or request.app.state.desk
    try:
        said = await asked.ask(caller.workspace_id, model_id, question, _gone(request))
    except Left:
        return Response(status_code=499)
    except Refusal as refusal:
        failure = _REFUSALS.get(refusal.code, Failure.MODEL_REFUSED)
        where = FieldError(where="body.recipe", message=refusal.detail, line=refusal.line)
        raise Problem(failure, refusal.detail, errors=[where] if failure is Failure.BAD_RECIPE else None) from None
    return Response(await run_in_threadpool(_checked, said, kind), media_type="application/json")


def _require(services: Services, caller: Caller, model_id: str, target: str) -> None:
    """Raise a `Problem` for a model or a target that there is not."""
    services.compiler.load().require_target(target)
    with services.database.read() as session:
        Models(session, caller.workspace_id).require(model_id)


def _gone(request: Request) -> Callable[[], Awaitable[bool]]:
    return request.is_disconnected


def _checked(said: dict[str, Any], kind: type[_Answer]) -> str:
    try:
        return kind.model_validate(said).model_dump_json()
    except ValidationError:
        raise Problem(Failure.CHECK_FAILED, "The compiler gave an answer that cannot be read.") from None
