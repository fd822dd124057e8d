"""Regressions over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Query

from pock_server.db import globs
from pock_server.dependencies import Reader, ServicesDep
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS
from pock_server.regressions.schemas import RegressionOut, RegressionPage
from pock_server.regressions.service import Regressions
from pock_server.regressions.tables import RegressionRecord

router = APIRouter(prefix="/regressions", tags=["regressions"], responses=PROBLEMS)


@router.get("")
def list_regressions(
    caller: Reader,
    services: ServicesDep,
    page: PageQuery,
    model: Annotated[
        str | None, Query(max_length=globs.MAX_CHARACTERS, description="A model's name; `*`, `?`.")
    ] = None,
    target: Annotated[str | None, Query(max_length=100)] = None,
) -> RegressionPage:
    """List steps that became slower, as the series of benchmarks show."""
    filters = [] if model is None else [globs.matches(RegressionRecord.model_name.expression, model)]
    if target is not None:
        filters.append(RegressionRecord.target == target)
    with services.database.read() as session:
        found = Regressions(session, caller.workspace_id).page(page, *filters)
        shown = [RegressionOut.model_validate(row) for row in found.rows]
        return RegressionPage(items=shown, next_cursor=found.next_cursor)
