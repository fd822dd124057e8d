"""Writes a backup while the service goes on: rows as of one moment, then the blobs that they name."""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from sqlalchemy import func, select

from pock_server import __version__
from pock_server.backup.archive import MAX_KEY, Writer
from pock_server.backup.rows import dump, tables
from pock_server.blobs.care import quarantine
from pock_server.blobs.faults import BlobFault
from pock_server.blobs.tables import BlobRecord
from pock_server.migrations.runner import head_revision
from pock_server.services import Services

FORMAT = 1


@dataclass
class Saved:
    """What a backup holds; `absent` are the blobs that could not be read, and why."""

    rows: dict[str, int] = field(default_factory=dict)
    blobs: int = 0
    bytes: int = 0
    absent: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Snapshot:
    """Rows of one moment, in files of their own until the blobs before them are written."""

    tables: dict[str, IO[bytes]]
    digests: IO[str]
    ends: dict[str, dict[str, Any]]
    blobs: int
    bytes: int

    def close(self) -> None:
        """The files are needed no more."""
        self.digests.close()
        for spool in self.tables.values():
            spool.close()


Started = Callable[[int], Callable[[int], None]]
"""Is told the bytes of all blobs, and gives what is told how many were dealt with."""


async def save(services: Services, target: Path, started: Started) -> Saved:
    """Write a backup to `target`, whole or not at all. Raises OSError, `StoreFailed`."""
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    with tempfile.TemporaryDirectory(prefix=".pock-backup-", dir=target.parent) as scratch:
        snapshot = _take_snapshot(services, Path(scratch))
        try:
            with open(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b") as file:
                saved = await _write(services, Writer(file), snapshot, started(snapshot.bytes))
            draft.rename(target)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        finally:
            snapshot.close()
    return saved


def _take_snapshot(services: Services, scratch: Path) -> _Snapshot:
    engine = services.database.engine
    level = {"isolation_level": "REPEATABLE READ"} if engine.dialect.name == "postgresql" else {}
    spools: dict[str, IO[bytes]] = {}
    ends: dict[str, dict[str, Any]] = {}
    count = size = 0
    digests = (scratch / "digests").open("w+", encoding="ascii")
    with engine.connect().execution_options(**level) as connection:
        for table in tables():
            spool = spools[table.name] = (scratch / table.name).open("w+b")
            hashed, rows = hashlib.sha256(), 0
            for line in dump(connection, table):
                hashed.update(line)
                spool.write(line)
                rows += 1
            ends[table.name] = {"rows": rows, "sha256": hashed.hexdigest()}
        each = select(BlobRecord.digest, func.max(BlobRecord.size)).group_by(BlobRecord.digest)
        for digest, blob_bytes in connection.execution_options(yield_per=500).execute(each.order_by(BlobRecord.digest)):
            digests.write(f"{digest} {blob_bytes}\n")
            count, size = count + 1, size + blob_bytes
    return _Snapshot(spools, digests, ends, count, size)


async def _write(services: Services, writer: Writer, snapshot: _Snapshot, advance: Callable[[int], None]) -> Saved:
    saved = Saved(rows={name: end["rows"] for name, end in snapshot.ends.items()})
    manifest = {
        "format": FORMAT,
        "version": __version__,
        "revision": head_revision(),
        "created_at": services.clock.now().isoformat(),
        "tables": list(snapshot.tables),
        "blobs": snapshot.blobs,
        "bytes": snapshot.bytes,
    }
    writer.add("manifest.json", _json(manifest))
    snapshot.digests.seek(0)
    for line in snapshot.digests:
        digest, size = line.split()
        await _write_blob(services, writer, digest, int(size), saved)
        advance(int(size))
    keys = {}
    for name, data in _keys(services.settings.data_dir / "keys"):
        writer.add(f"keys/{name}", data)
        keys[name] = hashlib.sha256(data).hexdigest()
    for name, spool in snapshot.tables.items():
        writer.add_file(f"tables/{name}.jsonl", spool)  # type: ignore[arg-type]
    writer.add("end.json", _json({"tables": snapshot.ends, "keys": keys, "absent": len(saved.absent)}))
    writer.finish()
    return saved


async def _write_blob(services: Services, writer: Writer, digest: str, size: int, saved: Saved) -> None:
    """Append a blob, or nothing and a note if its bytes are not right."""
    start = writer.begin(f"blobs/{digest}", size)
    try:
        async for chunk in await services.blobs.stream(digest, size, 0, size):
            writer.file.write(chunk)
    except BlobFault as fault:
        writer.undo(start)
        saved.absent[digest] = fault.reason
        quarantine(services, fault)
        return
    writer.end()
    saved.blobs += 1
    saved.bytes += size


def _keys(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the files that a service needs to be trusted by its devices."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= MAX_KEY:
            yield path.name, path.read_bytes()


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode()
