"""What a recipe's mappings may hold. A key is declared once: it is the field of a dataclass, made with `key`.

From that come the reading of a mapping, the error for an unknown key, the canonical form and the check of the
documentation. Knows no single key.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from typing import Any, TypeVar

from ..errors import RecipeError
from .fields import check_keys, describe

Record = TypeVar("Record")

Reader = Callable[[object, str], Any]
"""From what a mapping holds and the key's name in full (`optimizer.lr`) to the field's value. Raises RecipeError."""


@dataclass(frozen=True)
class Key:
    """One key.

    read    what becomes of the given value
    plain   from the field's value to what a mapping holds
    always  whether the canonical form has the key where it says the default
    only    the kinds of its record that have it, where it is a record of several kinds; none: all of them"""

    read: Reader
    plain: Callable[[Any], Any]
    always: bool
    only: tuple[str, ...]


def plain_value(value: Any) -> Any:
    """Lists for tuples, mappings for records."""
    if isinstance(value, tuple):
        return [plain_value(item) for item in value]
    return value.to_mapping() if hasattr(value, "to_mapping") else value


def key(
    read: Reader,
    default: Any = MISSING,
    *,
    plain: Callable[[Any], Any] = plain_value,
    always: bool = True,
    only: tuple[str, ...] = (),
) -> Any:
    """A field that a recipe's mapping says; without a default it has to."""
    return dataclasses.field(default=default, metadata={"key": Key(read, plain, always, only)})


def keys_of(record: type[Any], kind: str | None = None) -> dict[str, Key]:
    """The keys of a record by name, in the order of its fields; with `kind`, those that this kind has."""
    found = {one.name: one.metadata["key"] for one in dataclasses.fields(record) if "key" in one.metadata}
    return {name: one for name, one in found.items() if kind is None or not one.only or kind in one.only}


def read_keys(
    record: type[Any], mapping: Mapping[Any, Any], where: str, *, prefix: str | None = None, kind: str | None = None
) -> dict[str, Any]:
    """The fields of a record that a mapping says. `where` names the mapping in errors, `prefix` goes before its keys
    (default: `where`); `name` is no field and may stand in the mapping of a record that has kinds or classes. Raises
    RecipeError, which for an unknown key names the nearest known one."""
    keys = keys_of(record, kind)
    check_keys(mapping, (*(["name"] if prefix is not None else []), *keys), where)
    before = where if prefix is None else prefix
    return {name: one.read(mapping[name], f"{before}.{name}") for name, one in keys.items() if name in mapping}


def read_records(
    record: type[Record], value: object, where: str, example: str, lacking: Callable[[Mapping[str, Any]], str | None]
) -> tuple[Record, ...]:
    """The records that a list of mappings such as `example` says, records among them. `lacking` says of a mapping's
    fields what is wrong with them together, `where` before it. Raises RecipeError."""
    if not isinstance(value, list | tuple):
        raise RecipeError(f"{where} must be a list such as [{example}], not {describe(value)}")
    found = []
    for index, item in enumerate(value):
        place = f"{where}[{index}]"
        if isinstance(item, record):
            found.append(item)
            continue
        if not isinstance(item, Mapping):
            raise RecipeError(f"{place} must be a mapping such as {example}, not {describe(item)}")
        fields = read_keys(record, item, place)
        if wrong := lacking(fields):
            raise RecipeError(f"{place} {wrong}")
        found.append(record(**fields))
    return tuple(found)


def canonical(record: Any, kind: str | None = None) -> dict[str, Any]:
    """The mapping that gives the same record back. What is None says nothing, so it is left out."""
    defaults = {one.name: one.default for one in dataclasses.fields(record)}
    mapping = {}
    for name, one in keys_of(type(record), kind).items():
        value = getattr(record, name)
        if value is not None and (one.always or value != defaults[name]):
            mapping[name] = one.plain(value)
    return mapping
