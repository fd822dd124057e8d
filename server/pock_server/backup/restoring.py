"""Restores a backup into an empty service: blobs first, then all rows in one transaction that is checked."""

import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Connection, exists, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from pock_server.backup.archive import MAX_KEY, MAX_TEXT, BadArchive, Entry, Reader, parse_object
from pock_server.backup.rows import load, tables
from pock_server.backup.saving import FORMAT
from pock_server.blobs.faults import DigestMismatch
from pock_server.blobs.tables import BlobRecord, QuarantineRecord
from pock_server.db.engine import BEGIN
from pock_server.devices.tables import DeviceRecord
from pock_server.migrations.runner import head_revision
from pock_server.services import Services

_COUNTER_STEP = 1_000_000
"""Agents refuse work whose counter is not above the last they saw, which was counted after the backup was made."""


class NotEmpty(Exception):
    """The service has data, which a restore would mix up with the archive's."""


@dataclass
class Restored:
    """What a restore brought back."""

    rows: dict[str, int] = field(default_factory=dict)
    blobs: int = 0
    bytes: int = 0
    absent: int = 0


@dataclass
class _State:
    """How far the archive was read."""

    reader: Reader
    seen: IO[str]
    advance: Callable[[int], None]
    now: datetime
    restored: Restored = field(default_factory=Restored)
    last_digest: str = ""


async def restore(services: Services, source: Path, advance: Callable[[int], None]) -> Restored:
    """Bring back an archive. Raises `BadArchive`, `NotEmpty`, OSError; rows come back all or none.

    Blobs that were stored before it failed do no harm: without rows they are collected after the grace period.
    """
    _require_empty(services)
    with source.open("rb") as file, tempfile.TemporaryFile("w+", encoding="ascii") as seen:
        state = _State(Reader(file), seen, advance, services.clock.now())
        _check_manifest(state.reader)
        entry = await _restore_blobs(services, state)
        keys: dict[str, bytes] = {}
        while entry is not None and entry.name.startswith("keys/"):
            keys[entry.name.removeprefix("keys/")] = state.reader.whole(entry, MAX_KEY)
            entry = state.reader.next()
        _check_keys(services, keys)
        try:
            engine = services.database.engine.execution_options(**{BEGIN: "IMMEDIATE"})
            with engine.begin() as connection:
                _restore_rows(connection, state, entry, keys)
        except SQLAlchemyError as error:
            reason = str(getattr(error, "orig", None) or error).splitlines()[0][:200]
            raise BadArchive(f"holds rows that the database refuses: {reason}") from None
        _write_keys(services, keys)
        return state.restored


def _require_empty(services: Services) -> None:
    with services.database.engine.connect() as connection:
        for table in tables():
            if connection.scalar(select(exists().select_from(table))):
                raise NotEmpty(f"there are rows in table {table.name}")


def _check_manifest(reader: Reader) -> None:
    entry = reader.next()
    if entry is None or entry.name != "manifest.json":
        raise BadArchive("does not begin with manifest.json")
    manifest = parse_object(entry.name, reader.whole(entry, MAX_TEXT))
    if manifest.get("format") != FORMAT:
        raise BadArchive(f"has format {manifest.get('format')!r}; this version reads format {FORMAT}")
    if manifest.get("revision") != head_revision():
        raise BadArchive(
            f"was made by version {manifest.get('version')!r} with tables of revision {manifest.get('revision')!r}, "
            f"and these are of {head_revision()!r}: restore it with that version, and upgrade afterwards"
        )


async def _restore_blobs(services: Services, state: _State) -> Entry | None:
    """Store the blobs; the entry after them."""
    while (entry := state.reader.next()) is not None and entry.name.startswith("blobs/"):
        digest = entry.name.removeprefix("blobs/")
        if digest <= state.last_digest:
            raise BadArchive("holds blobs twice, or out of order")
        if entry.size > services.settings.max_blob_bytes:
            raise BadArchive(f"holds a blob of {entry.size} bytes; the limit is {services.settings.max_blob_bytes}")
        try:
            await services.blobs.write(digest, entry.size, _stream(state.reader))
        except DigestMismatch:
            raise BadArchive(f"is damaged: blob {digest} has other bytes than its name says") from None
        state.last_digest = digest
        state.seen.write(digest + "\n")
        state.advance(entry.size)
        state.restored.blobs += 1
        state.restored.bytes += entry.size
    return entry


async def _stream(reader: Reader) -> AsyncIterator[bytes]:
    for chunk in reader.chunks():
        yield chunk


def _check_keys(services: Services, keys: dict[str, bytes]) -> None:
    for name, data in keys.items():
        path = services.settings.data_dir / "keys" / name
        if name in (".", "..") or (path.exists() and path.read_bytes() != data):
            raise NotEmpty(f"{path} is another key than the archive's; move it away if the archive's is the right one")


def _write_keys(services: Services, keys: dict[str, bytes]) -> None:
    folder = services.settings.data_dir / "keys"
    for name, data in keys.items():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = folder / f".{name}.{os.getpid()}"
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(folder / name)


def _restore_rows(connection: Connection, state: _State, entry: Entry | None, keys: dict[str, bytes]) -> None:
    ends: dict[str, dict[str, Any]] = {}
    for table in tables():
        if entry is None or entry.name != f"tables/{table.name}.jsonl":
            raise BadArchive(f"has {entry.name if entry else 'its end'} where table {table.name} should be")
        counted = _Counted(state.reader.lines())
        load(connection, table, counted)
        ends[table.name] = {"rows": counted.rows, "sha256": counted.hashed.hexdigest()}
        state.restored.rows[table.name] = counted.rows
        entry = state.reader.next()
    if entry is None or entry.name != "end.json":
        raise BadArchive("does not end with end.json: it was not written to its end")
    end = parse_object(entry.name, state.reader.whole(entry, MAX_TEXT))
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in keys.items()}
    if end.get("tables") != ends or end.get("keys") != sums or state.reader.next() is not None:
        raise BadArchive("is damaged: its tables or keys are not those that were saved")
    state.restored.absent = _quarantine_absent(connection, state)
    if state.restored.absent != end.get("absent"):
        raise BadArchive("is damaged: blobs are missing")
    connection.execute(update(DeviceRecord).values(work_counter=DeviceRecord.work_counter + _COUNTER_STEP))


@dataclass
class _Counted:
    """Lines on their way, counted and hashed."""

    lines: Iterator[bytes]
    rows: int = 0
    hashed: Any = field(default_factory=hashlib.sha256)

    def __iter__(self) -> Iterator[bytes]:
        for line in self.lines:
            self.hashed.update(line)
            self.rows += 1
            yield line


def _quarantine_absent(connection: Connection, state: _State) -> int:
    """Claims whose bytes the archive does not have, because they were damaged already; how many there are."""
    seen = state.seen
    seen.seek(0)
    stored = seen.readline().strip()
    query = select(BlobRecord.digest).distinct().order_by(BlobRecord.digest)
    absent: list[str] = []
    for digest in connection.scalars(query):
        while stored and stored < digest:
            stored = seen.readline().strip()
        if stored != digest:
            absent.append(digest)
    known = set(connection.scalars(select(QuarantineRecord.digest)))
    reason = "was missing or damaged when it was backed up"
    fresh = [{"digest": digest, "reason": reason, "found_at": state.now} for digest in absent if digest not in known]
    if fresh:
        connection.execute(insert(QuarantineRecord), fresh)
    return len(absent)
