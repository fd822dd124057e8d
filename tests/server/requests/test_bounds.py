"""Whatever a client sends has a bound that the document states: text, list, number, object."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.harness import Server

Schema = dict[str, Any]
FREE_OBJECTS = {"x-max-characters"}
"""A value of any form says how long it may be as JSON."""


def unbounded(schema: Schema, document: Schema, where: str, seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """Places in a schema where a client may send as much as it likes."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        if name not in seen:
            yield from unbounded(document["components"]["schemas"][name], document, where, seen | {name})
        return
    for key in ("anyOf", "oneOf", "allOf"):
        for option in schema.get(key, ()):
            yield from unbounded(option, document, where, seen)
    if "const" in schema or "enum" in schema:
        return
    kind = schema.get("type")
    if kind == "string" and not ({"maxLength", "format"} & set(schema) or _ends(schema.get("pattern", ""))):
        yield f"{where}: a text without maxLength"
    if kind in ("integer", "number"):
        low, high = {"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"}
        if not (low & set(schema) and high & set(schema)):
            yield f"{where}: a number without both bounds"
    if kind == "array":
        if "maxItems" not in schema:
            yield f"{where}: a list without maxItems"
        yield from unbounded(schema.get("items", {}), document, f"{where}[]", seen)
    if kind == "object":
        yield from _unbounded_object(schema, document, where, seen)
    if kind is None and not {"$ref", "anyOf", "oneOf", "allOf", *FREE_OBJECTS} & set(schema):
        yield f"{where}: anything"


def _unbounded_object(schema: Schema, document: Schema, where: str, seen: frozenset[str]) -> Iterator[str]:
    if FREE_OBJECTS & set(schema):
        return
    for name, part in schema.get("properties", {}).items():
        yield from unbounded(part, document, f"{where}.{name}", seen)
    rest = schema.get("additionalProperties")
    if not rest and "properties" in schema:
        return  # what is not declared is dropped, or refused
    if "maxProperties" not in schema:
        yield f"{where}: an object without maxProperties"
    if isinstance(rest, dict):
        yield from unbounded(rest, document, f"{where}.*", seen)


def _ends(pattern: str) -> bool:
    """Whether only texts of bounded length match: a pattern of our identifiers has no open repetition."""
    return pattern.endswith("$") and not any(mark in re.sub(r"\[[^]]*\]", "", pattern) for mark in "*+")


def test_every_request_is_bounded(server: Server) -> None:
    document = server.client.get("/openapi.json").json()
    found: list[Any] = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            where = f"{method.upper()} {path}"
            for parameter in operation.get("parameters", ()):
                found += unbounded(parameter["schema"], document, f"{where} {parameter['name']}")
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if body is not None:
                found += unbounded(body["schema"], document, where)
    assert found == []


@pytest.mark.parametrize(
    ("schema", "count"),
    [
        ({"type": "string"}, 1),
        ({"type": "string", "pattern": "^a*$"}, 1),
        ({"type": "array", "items": {"type": "integer"}}, 2),
        ({"type": "object", "additionalProperties": True}, 1),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1),
        ({}, 1),
        ({"type": "string", "maxLength": 3}, 0),
        ({"type": "object", "properties": {"a": {"type": "boolean"}}}, 0),
    ],
)
def test_the_search_finds_something(schema: Schema, count: int) -> None:
    assert len(list(unbounded(schema, {}, "here"))) == count
