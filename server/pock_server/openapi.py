"""Finishes the OpenAPI document: problems as the only error format."""

import re
from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from pock_server.http.problems import ProblemOut


def install(app: FastAPI) -> None:
    """Replace `app.openapi` by one that describes errors as the service sends them; also list an address's methods."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _finish(
                get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            )
        return app.openapi_schema

    table: dict[re.Pattern[str], str] = {}

    def allowed_methods(path: str) -> str | None:
        """All methods of an address, of whatever routes; None where the document has no such address."""
        if not table:
            for template, operations in document()["paths"].items():
                pattern = re.compile(re.sub(r"\\{[^}]+\\}", "[^/]+", re.escape(template)))
                table[pattern] = ", ".join(sorted(method.upper() for method in operations))
        return next((methods for pattern, methods in table.items() if pattern.fullmatch(path)), None)

    app.openapi = document  # type: ignore[method-assign]
    app.state.allowed_methods = allowed_methods


def _finish(document: dict[str, Any]) -> dict[str, Any]:
    schemas = document["components"]["schemas"]
    problem = ProblemOut.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(problem.pop("$defs", {}))
    schemas["ProblemOut"] = problem
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for path in document["paths"].values():
        for operation in path.values():
            # FastAPI describes its own validation error; ours is a problem, covered by 4XX.
            operation["responses"].pop("422", None)
            if "security" in operation:
                operation["security"] = list(_alternatives(operation["security"]))
    return document


def _alternatives(requirements: list[dict[str, list[str]]]) -> Iterator[dict[str, list[str]]]:
    """Each scope on its own: any of them opens the call, where the document's lists mean all."""
    for requirement in requirements:
        for scheme, scopes in requirement.items():
            yield from [{scheme: [scope]} for scope in scopes] or [{scheme: []}]
