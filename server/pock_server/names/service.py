"""Versions and their tags, for all kinds."""

from dataclasses import dataclass
from datetime import datetime
from typing import Generic

from pock_server.audit.service import Action, changed, record
from pock_server.db.unit import Unit
from pock_server.http.problems import Failure, Problem
from pock_server.names.repository import Row, VersionedRepository
from pock_server.names.tables import Kind

_TAG = {
    Kind.MODEL: Action.MODEL_TAG,
    Kind.DATASET: Action.DATASET_TAG,
    Kind.RECIPE: Action.RECIPE_TAG,
    Kind.BUILD: Action.BUILD_TAG,
}
_UNTAG = {
    Kind.MODEL: Action.MODEL_UNTAG,
    Kind.DATASET: Action.DATASET_UNTAG,
    Kind.RECIPE: Action.RECIPE_UNTAG,
    Kind.BUILD: Action.BUILD_UNTAG,
}


@dataclass(frozen=True)
class Pushed(Generic[Row]):
    """The version that answers a request, and whether the request made it."""

    row: Row
    created: bool


def tag(unit: Unit, versions: VersionedRepository[Row], row_id: str, word: str, now: datetime) -> Row:
    """Have a tag name this version of its name from now on, whichever it named before."""
    row = versions.require(row_id, lock=True)
    versions.hold(row.name)
    before = versions.put_tag(row, word)
    if before != row.version:
        changes = changed({word: before}, {word: row.version})
        record(unit, _TAG[versions.kind], row, row.name, now, changes)
    return row


def untag(unit: Unit, versions: VersionedRepository[Row], row_id: str, word: str, now: datetime) -> None:
    """Take a tag away from this version; a 404 `Problem` if it has no such tag."""
    row = versions.require(row_id, lock=True)
    versions.hold(row.name)
    if not versions.drop_tag(row, word):
        raise Problem(Failure.NOT_FOUND, f"Version {row.version} of {row.name} has no tag {word}.")
    record(unit, _UNTAG[versions.kind], row, row.name, now, changed({word: row.version}, {}))


def number(versions: VersionedRepository[Row], row_id: str) -> None:
    """Give a row that has none a version; one who runs beside may have done so."""
    row = versions.require(row_id, lock=True)
    versions.hold(row.name)
    if row.version == 0:
        row.version = versions.next_version(row.name)
