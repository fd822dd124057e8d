"""Says to clients what is wrong with the store."""

import logging

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from sqlalchemy.exc import OperationalError
from starlette.responses import JSONResponse

from pock_server.blobs.care import quarantine
from pock_server.blobs.faults import BlobFault, StoreFailed, StoreFull
from pock_server.blobs.repository import damaged
from pock_server.http.problems import Failure, database_down, problem_response

_log = logging.getLogger(__name__)
_SQLITE_FULL = "database or disk is full"
_LATER = {"Retry-After": "10"}


async def _on_blob_fault(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, BlobFault)
    await run_in_threadpool(quarantine, request.app.state.services, error)
    problem = damaged(error.digest)
    return problem_response(problem.failure, problem.detail)


async def _on_store_failed(_request: Request, error: Exception) -> JSONResponse:
    _log.error("object store: %s", error)
    if isinstance(error, StoreFull):
        return _full()
    return problem_response(Failure.STORE_FAILED, "The object store does not answer; try again later.", headers=_LATER)


async def _on_database_failed(_request: Request, error: Exception) -> JSONResponse:
    """A full disk has a name of its own."""
    if _SQLITE_FULL not in str(error):
        return database_down(error)
    _log.error("database: %s", error)
    return _full()


def _full() -> JSONResponse:
    detail = "The service has no room to store this; nothing was stored. Try again when its operator has made some."
    return problem_response(Failure.STORE_FULL, detail, headers=_LATER)


def install(app: FastAPI) -> None:
    """Make failures of the store, and damages in it, problems."""
    app.add_exception_handler(BlobFault, _on_blob_fault)
    app.add_exception_handler(StoreFailed, _on_store_failed)
    app.add_exception_handler(OperationalError, _on_database_failed)
