"""Rows as lines of JSON, the same from every database."""

import base64
import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import Column, Connection, DateTime, Integer, LargeBinary, Select, Table, func, insert, select, text

from pock_server.backup.archive import BadArchive
from pock_server.blobs.tables import UploadPartRecord, UploadRecord
from pock_server.db.base import UtcDateTime
from pock_server.db.registry import METADATA

_BATCH = 500


def tables() -> list[Table]:
    """What a backup holds, those that others refer to first. Unfinished uploads begin anew."""
    return [table for table in METADATA.sorted_tables if table.name != UploadPartRecord.__tablename__]


def dump(connection: Connection, table: Table) -> Iterator[bytes]:
    """The rows as lines, a few at a time in memory."""
    query: Select[Any] = select(table).order_by(*table.primary_key.columns)
    if table.name == UploadRecord.__tablename__:
        query = query.where(table.c.complete.is_(True))
    for row in connection.execution_options(yield_per=_BATCH).execute(query).mappings():
        values = {column.name: _encode(column, row[column]) for column in table.columns}
        yield json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def load(connection: Connection, table: Table, lines: Iterable[bytes]) -> None:
    """Insert the rows of these lines; raises `BadArchive` for lines that are no rows of the table."""
    batch: list[dict[str, Any]] = []
    for line in lines:
        batch.append(_decode(table, line))
        if len(batch) == _BATCH:
            connection.execute(insert(table), batch)
            batch = []
    if batch:
        connection.execute(insert(table), batch)
    _move_sequence(connection, table)


def _encode(column: Column[Any], value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def _decode(table: Table, line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
        if not isinstance(found, dict) or found.keys() != {column.name for column in table.columns}:
            raise ValueError("its columns are others")
        return {column.name: _decoded(column, found[column.name]) for column in table.columns}
    except (ValueError, TypeError, RecursionError) as error:
        raise BadArchive(f"holds a line that is no row of {table.name}: {error}") from None


def _decoded(column: Column[Any], value: Any) -> Any:
    if value is None:
        return None
    if isinstance(column.type, UtcDateTime | DateTime):
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            raise ValueError(f"{column.name} has no time zone")
        return moment
    if isinstance(column.type, LargeBinary):
        return base64.b64decode(value, validate=True)
    return value


def _move_sequence(connection: Connection, table: Table) -> None:
    """PostgreSQL counts numbers that it gives itself apart from the rows: go on after the last one."""
    column = table.autoincrement_column
    if connection.dialect.name != "postgresql" or column is None or not isinstance(column.type, Integer):
        return
    last = connection.scalar(select(func.max(column)))
    if last is not None:
        sequence = text("SELECT setval(pg_get_serial_sequence(:table, :column), :last)")
        connection.execute(sequence, {"table": table.name, "column": column.name, "last": last})
