"""Field types that several domains' schemas share; each refuses what some database or device could not store."""

import json
import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints

from pock_server.json_texts import Written, written

DIGEST = r"^[0-9a-f]{64}$"
UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"

Digest = Annotated[str, StringConstraints(pattern=DIGEST), Field(description="SHA-256, lower-case hexadecimal.")]
Id = Annotated[str, StringConstraints(pattern=UUID), Field(description="UUIDv7.")]
Name = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]+$", min_length=1, max_length=200)]
FileName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.\-]*(/[A-Za-z0-9_][A-Za-z0-9_.\-]*)*$", max_length=200),
    Field(description="Relative path without dot segments, as the model names its external data file."),
]
Base64Key = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9+/]{43}=$"),
    Field(description="Raw Ed25519 public key (32 bytes), base64."),
]
Base64Signature = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9+/]{86}==$"),
    Field(description="Ed25519 signature (64 bytes), base64."),
]

_MAX_DEPTH = 32


def check_scalar(value: Any) -> None:
    """Raise ValueError for an integer beyond 64 bits, and for a text with a NUL or half of a character."""
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise ValueError("holds an integer beyond 64 bits")
    if isinstance(value, str) and ("\0" in value or any("\ud800" <= character <= "\udfff" for character in value)):
        raise ValueError("holds text that cannot be stored")


def check_json(value: Any, depth: int = 0) -> Any:
    """Refuse what JSON texts of other programs cannot hold: NaN, infinities, NUL, lone surrogates, endless nesting."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"is nested deeper than {_MAX_DEPTH} levels")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("holds a number that is not finite")
    check_scalar(value)
    if isinstance(value, dict):
        for key, item in value.items():
            check_json(key, depth + 1)
            check_json(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            check_json(item, depth + 1)
    return value


JsonObject = Annotated[dict[str, Any], AfterValidator(check_json)]


def _check_size(value: Any, characters: int) -> Any:
    if len(canonical_json(check_json(value))) > characters:
        raise ValueError(f"holds more than {characters} characters as JSON")
    return value


def _written(value: dict[str, Any], characters: int) -> Written:
    return written(check_json(value), characters)


def _at_most(characters: int, check: Callable[..., Any] = _check_size) -> tuple[AfterValidator, Any]:
    """Bounds a value of any form by its length as JSON, and states the bound in the document."""
    stated = Field(json_schema_extra={"x-max-characters": characters})
    return AfterValidator(partial(check, characters=characters)), stated


MAX_FACTS_CHARACTERS = 16_000
"""Every listing of devices carries their facts."""

Facts = Annotated[dict[str, Any], *_at_most(MAX_FACTS_CHARACTERS)]
SmallValue = Annotated[Any, *_at_most(16_000)]
"""JSON of any kind."""
RecipeObject = Annotated[dict[str, Any], *_at_most(100_000)]
Report = Annotated[dict[str, Any], *_at_most(3_000_000, _written)]
ExecutableLine = Annotated[dict[str, Any], Field(max_length=64, description="What is not a number is dropped.")]


def canonical_json(value: Any) -> str:
    """The one text of a JSON value: sorted keys, no spaces. Equal values have equal texts, so texts can be hashed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
