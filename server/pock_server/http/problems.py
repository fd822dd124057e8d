"""Every error the service answers, as RFC 9457 problem+json with a numbered failure code."""

import logging
from collections.abc import Mapping, Sequence
from enum import Enum
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.exc import DataError, IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException

from pock_server.observing.context import current

_log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"
_ERRORS = 50
"""Of one request that are told."""


class Failure(Enum):
    """Failure code, HTTP status, title, and whether the same request may succeed later."""

    INTERNAL = 1000, 500, "Internal error", True
    KEY_UNKNOWN = 1001, 401, "Missing or unknown credentials", False
    KEY_EXPIRED = 1002, 401, "Expired API key", False
    KEY_REVOKED = 1003, 401, "Revoked API key", False
    SCOPE_MISSING = 1004, 403, "Scope missing", False
    NOT_FOUND = 1005, 404, "Not found", False
    INVALID = 1006, 422, "Invalid request", False
    REQUEST_REFUSED = 1007, 400, "Request refused", False
    KEY_REUSED = 1008, 422, "Idempotency key reused with another body", False
    KEY_IN_FLIGHT = 1009, 409, "Request with this idempotency key in progress", True
    OFFSET_WRONG = 1010, 409, "Wrong upload offset", False
    DIGEST_MISMATCH = 1011, 460, "Digest mismatch", False
    TOO_LARGE = 1012, 413, "Too large", False
    CURSOR_INVALID = 1013, 422, "Invalid cursor", False
    STATE_CONFLICT = 1014, 409, "Not possible in this state", False
    TOKEN_UNKNOWN = 1015, 401, "Unknown enrolment token", False
    TOKEN_EXPIRED = 1016, 401, "Expired enrolment token", False
    TOKEN_USED = 1017, 401, "Enrolment token already used", False
    SIGNATURE_INVALID = 1018, 401, "Invalid device signature", False
    DEVICE_QUARANTINED = 1019, 409, "Device quarantined", False
    DEVICE_REVOKED = 1020, 401, "Device revoked", False
    LEASE_LOST = 1021, 409, "Lease lost", False
    RANGE_UNSATISFIABLE = 1022, 416, "Range not satisfiable", False
    SESSION_EXPIRED = 1023, 401, "Session expired or replaced", False
    NOT_READY = 1024, 503, "Not ready", True
    SESSION_STALE = 1025, 425, "Session request not fresh", True
    MEMBER_DISABLED = 1026, 401, "Disabled member", False
    ORIGIN_REFUSED = 1027, 403, "Request from another page", False
    CHANGED_MEANWHILE = 1028, 409, "Changed by somebody else meanwhile", False
    UPLOAD_CHECKING = 1030, 409, "Upload being checked", True
    STORE_FAILED = 1031, 503, "Object store does not answer", True
    STORE_FULL = 1032, 507, "No room", True
    TOO_SLOW = 1040, 408, "Request too slow", True
    HEADERS_TOO_LARGE = 1041, 431, "Request headers too large", False
    BUSY = 1042, 503, "Too busy", True
    RATE_LIMITED = 1043, 429, "Too many requests", True
    ENCODING_REFUSED = 1044, 415, "Content encoding refused", False
    QUOTA_BYTES = 1050, 409, "Too many bytes in this workspace", False
    QUOTA_MODELS = 1051, 409, "Too many models in this workspace", False
    QUOTA_DATASETS = 1052, 409, "Too many datasets in this workspace", False
    QUOTA_DEVICES = 1053, 409, "Too many devices in this workspace", False
    QUOTA_BUILDS = 1054, 409, "Too many open builds in this workspace", True
    QUOTA_RUNS = 1055, 409, "Too many open runs in this workspace", True
    QUOTA_KEYS = 1056, 409, "Too many API keys in this workspace", False
    QUOTA_TOKENS = 1057, 409, "Too many enrolment tokens in this workspace", True
    QUOTA_UPLOADS = 1058, 409, "Too many open uploads in this workspace", True
    QUOTA_RECIPES = 1059, 409, "Too many recipes in this workspace", False
    QUOTA_WEBHOOKS = 1060, 409, "Too many webhooks in this workspace", False
    QUOTA_ROLLOUTS = 1071, 409, "Too many open rollouts in this workspace", False
    QUOTA_AGENT_RELEASES = 1070, 409, "Too many agent releases in this workspace", False
    QUOTA_CAMPAIGNS = 1061, 409, "Too many open campaigns in this workspace", True
    QUOTA_SCHEDULES = 1062, 409, "Too many schedules in this workspace", False
    QUOTA_FEDERATIONS = 1074, 409, "Too many open federations in this workspace", True
    BLOB_DAMAGED = 1033, 410, "Stored bytes damaged", False
    CHECK_FAILED = 2001, 502, "The compiler failed", True
    CHECK_TOO_LARGE = 2003, 422, "Too large to look at here", False
    MODEL_REFUSED = 3001, 422, "Model cannot be used", False
    BAD_RECIPE = 3003, 422, "Bad recipe", False
    CHECK_TIMEOUT = 10001, 422, "Takes too long to be told at once", False
    BAD_ARGUMENT = 10003, 422, "Bad argument", False
    BAD_DATA = 10004, 422, "Bad data", False
    COMPILER_UNKNOWN = 20001, 503, "Compiler not described yet", True

    @property
    def code(self) -> int:
        """The number in `failure_code`."""
        return int(self.value[0])

    @property
    def status(self) -> int:
        """The HTTP status."""
        return int(self.value[1])

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return bool(self.value[3])


class Problem(Exception):
    """Raise anywhere below a request to answer with a problem; `detail` is one sentence that says what to do."""

    def __init__(
        self,
        failure: Failure,
        detail: str,
        headers: Mapping[str, str] | None = None,
        errors: "Sequence[FieldError] | None" = None,
    ) -> None:
        super().__init__(detail)
        self.failure = failure
        self.detail = detail
        self.headers = dict(headers or {})
        self.errors = errors


class FieldError(BaseModel):
    """One part of a request that did not validate."""

    where: str = Field(description="Path of the part, e.g. `body.recipe.batch`.")
    message: str
    line: int | None = Field(default=None, description="Of a recipe's text, from 1, as far as it can be told.")


class ProblemOut(BaseModel):
    """RFC 9457 problem details with PockEngine's extensions."""

    model_config = ConfigDict(title="Problem")

    type: str = Field(description="Identifies the failure: `urn:pock:failure:CODE`.")
    title: str
    status: int
    detail: str = Field(description="One sentence: what was wrong and what to do.")
    failure_code: int
    retryable: bool = Field(description="Whether the same request may succeed later.")
    request_id: str | None = Field(default=None, description="By this the service's log is searched.")
    errors: list[FieldError] | None = Field(default=None, description="The parts of the request that were wrong.")


PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"description": text, "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemOut"}}}}
    for code, text in (("4XX", "The request cannot be served."), ("5XX", "The service failed."))
}
"""`responses=` of every router. 4XX covers 422: `openapi.py` removes FastAPI's own validation error."""


def problem_response(
    failure: Failure,
    detail: str,
    *,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    errors: Sequence[FieldError] | None = None,
) -> JSONResponse:
    """A problem+json response; `status` overrides the failure's own."""
    code, usual_status, title, retryable = failure.value
    task = current()
    if task is not None:
        task.failure_code = code
    body = ProblemOut(
        type=f"urn:pock:failure:{code}",
        title=title,
        status=status or usual_status,
        detail=detail,
        failure_code=code,
        retryable=retryable,
        request_id=task.request_id if task else None,
        errors=list(errors) if errors else None,
    )
    content = body.model_dump(exclude_none=True)
    return JSONResponse(content, status_code=body.status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


async def _on_problem(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Problem)
    return problem_response(error.failure, error.detail, headers=error.headers, errors=error.errors)


async def _on_http_exception(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.NOT_FOUND:
        return problem_response(Failure.NOT_FOUND, f"There is nothing at {_printable(request.scope['path'])}.")
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        # The router knows the methods of the first route that has this address only.
        allowed = request.app.state.allowed_methods(request.scope["path"]) or (error.headers or {}).get("Allow", "GET")
        detail = f"{request.method} is not possible here; use {allowed}."
        return problem_response(Failure.REQUEST_REFUSED, detail, status=error.status_code, headers={"Allow": allowed})
    detail = str(error.detail)
    return problem_response(Failure.REQUEST_REFUSED, detail, status=error.status_code, headers=error.headers)


async def _on_invalid(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    # The rejected input is left out of the answer: it may be large, secret, or not encodable.
    errors = [
        FieldError(where=_printable(".".join(str(part) for part in item["loc"])), message=_printable(item["msg"]))
        for item in error.errors()[:_ERRORS]
    ]
    first = errors[0] if errors else FieldError(where="body", message="is not valid")
    return problem_response(Failure.INVALID, f"{first.where}: {first.message}.", errors=errors)


async def _on_unstorable(_request: Request, _error: Exception) -> JSONResponse:
    detail = "The request holds a number or a text that the database cannot store; send a smaller or simpler one."
    return problem_response(Failure.INVALID, detail)


async def _on_conflict(_request: Request, error: Exception) -> JSONResponse:
    """Another request was faster with something that this one needs, and deleted it, or that this one deletes."""
    _log.info("a request lost against another one: %s", error)
    detail = "What this request is about was changed by another request at this moment; look, and ask again."
    return problem_response(Failure.STATE_CONFLICT, detail)


DATABASE_DOWN = (OperationalError, InterfaceError, PoolTimeout)
"""What is raised when the database cannot be reached, gave up waiting, or broke up two transactions."""


def database_down(error: Exception) -> JSONResponse:
    """The answer to a request that the database did not serve; nothing was done."""
    _log.warning("the database did not serve a request", exc_info=error)
    detail = "The database cannot be reached, or is too busy; repeat the request in a few seconds."
    return problem_response(Failure.NOT_READY, detail, headers={"Retry-After": "2"})


async def _on_database_down(_request: Request, error: Exception) -> JSONResponse:
    return database_down(error)


def crash_response() -> JSONResponse:
    """The answer to a request that found a fault of the service's own."""
    return problem_response(Failure.INTERNAL, "The service failed; its log says why. Try again later.")


async def _on_crash(_request: Request, _error: Exception) -> JSONResponse:
    return crash_response()


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def install(app: FastAPI) -> None:
    """Make every error of `app` a problem."""
    app.add_exception_handler(Problem, _on_problem)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(DataError, _on_unstorable)
    app.add_exception_handler(IntegrityError, _on_conflict)
    for kind in DATABASE_DOWN:
        app.add_exception_handler(kind, _on_database_down)
    app.add_exception_handler(Exception, _on_crash)
