"""What tuning learned, kept by everything that it depends on. `TuningStore` is the interface; the local one is an
SQLite file in the cache folder, safe with concurrent processes."""

from __future__ import annotations

import fcntl
import json
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from .workload import key_of

_TABLE = """CREATE TABLE IF NOT EXISTS tunings (
    key TEXT PRIMARY KEY, family TEXT NOT NULL, device TEXT NOT NULL, inputs TEXT NOT NULL, result TEXT NOT NULL,
    created REAL NOT NULL, used REAL NOT NULL
)"""
_PATIENCE = 30.0
"""Seconds to wait for a program that writes the file without our lock, such as the shell of SQLite."""
_NOT_DAMAGE = (sqlite3.OperationalError, sqlite3.ProgrammingError)

Inputs = Mapping[str, str]


@dataclass(frozen=True)
class Result:
    """What measuring one workload gave. `choice` is plain data of a `Choice` (codegen/tunable.py); milliseconds are
    medians, None where a choice was only checked; `mode` is `fast` or `full`; `tried` counts the candidates run and
    `rejected` those that computed something else; `by` says who measured it, where that was not this machine."""

    choice: Any
    ms: float | None
    model_ms: float | None
    mode: str
    tried: int
    rejected: int
    by: str = ""


@dataclass(frozen=True)
class Entry:
    """A stored result; `created` and `used` are seconds since 1970. `provenance` is what else is known of how it was
    measured: plain values, for people."""

    inputs: Inputs
    result: Result
    created: float
    used: float
    provenance: Mapping[str, Any] = field(default_factory=dict)


class TuningStore(Protocol):
    """Where tuning looks before it measures. A store never raises for an entry that is damaged: it has none then."""

    def get(self, inputs: Inputs) -> Result | None:
        """The result for exactly these inputs (all of them are compared, not only their digest)."""

    def put(self, inputs: Inputs, result: Result) -> None:
        """Keep a result; one for the same inputs is replaced."""

    def list(self, family: str | None = None, device: str | None = None) -> Sequence[Entry]:
        """All entries, or those of a kernel family and of a device, the newest first."""

    def prune(self, before: float) -> int:
        """Drop what was last used before this time; how many went."""


class LocalStore:
    """A store in one SQLite file. A file that cannot be read is set aside with a warning, and a new one begun."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "tuning.sqlite"

    def get(self, inputs: Inputs) -> Result | None:
        key = key_of(inputs)
        with self._open() as database:
            row = database.execute("SELECT inputs, result FROM tunings WHERE key = ?", (key,)).fetchone()
            result = _result(row[1]) if row is not None and _parsed(row[0]) == dict(inputs) else None
            if result is not None:
                database.execute("UPDATE tunings SET used = ? WHERE key = ?", (time.time(), key))
        return result

    def put(self, inputs: Inputs, result: Result) -> None:
        now = time.time()
        texts = (json.dumps(dict(inputs), sort_keys=True), json.dumps(vars(result), sort_keys=True))
        with self._open() as database:
            database.execute(
                "INSERT OR REPLACE INTO tunings VALUES (?, ?, ?, ?, ?, ?, ?)",
                (key_of(inputs), inputs["family"], inputs["device"], *texts, now, now),
            )

    def list(self, family: str | None = None, device: str | None = None) -> Sequence[Entry]:
        query = "SELECT inputs, result, created, used FROM tunings WHERE (?1 IS NULL OR family = ?1) "
        query += "AND (?2 IS NULL OR device = ?2) ORDER BY created DESC, key"
        with self._open() as database:
            rows = database.execute(query, (family, device)).fetchall()
        parsed = [(_parsed(inputs), _result(result), created, used) for inputs, result, created, used in rows]
        return [
            Entry(inputs, result, created, used)
            for inputs, result, created, used in parsed
            if isinstance(inputs, dict) and result is not None
        ]

    def prune(self, before: float) -> int:
        with self._open() as database:
            return int(database.execute("DELETE FROM tunings WHERE used < ?", (before,)).rowcount)

    def clear(self) -> None:
        """Drop everything."""
        with self._locked():
            for file in self.path.parent.glob(f"{self.path.name}*"):
                file.unlink(missing_ok=True)

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""
        return self.path.stat().st_size if self.path.is_file() else 0

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection within a transaction, the only one in all processes."""
        with self._locked():
            try:
                with closing(self._intact()) as database, database:
                    yield database
            except _NOT_DAMAGE as error:
                raise OSError(None, f"the tuning cache cannot be used: {error}", str(self.path)) from None

    def _intact(self) -> sqlite3.Connection:
        """A connection to the file, or to a new one where the file is damaged."""
        try:
            return self._connected()
        except sqlite3.DatabaseError as error:
            if isinstance(error, _NOT_DAMAGE):
                raise
            self._set_aside()
            return self._connected()

    def _connected(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.path, timeout=_PATIENCE)
        try:
            database.execute(_TABLE)
            broken = database.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok"
        except sqlite3.Error:
            database.close()
            raise
        if broken:
            database.close()
            raise sqlite3.DatabaseError("the file is damaged")
        return database

    def _set_aside(self) -> None:
        """Move a damaged file away, and what belongs to it."""
        place = self.path.with_name(f"{self.path.name}.damaged-{time.time_ns()}")
        self.path.rename(place)
        for rest in ("-journal", "-wal", "-shm"):
            self.path.with_name(self.path.name + rest).unlink(missing_ok=True)
        print(f"pock: the tuning cache was damaged; it now lies at '{place}' and a new one is begun", file=sys.stderr)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Whoever opens, replaces or removes the file does so alone: a process that sets a damaged file aside would
        else take away the journal of one that has begun a new file. The system lets those who wait in one after the
        other and drops the lock of a process that ends, so nobody waits in vain or gives up too early."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_name("tuning.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _result(text: str) -> Result | None:
    return result_of(_parsed(text))


def result_of(content: Any) -> Result | None:
    """A result of plain values, or None where they are none."""
    try:
        result = Result(**content)
    except TypeError:
        return None
    times = all(ms is None or isinstance(ms, (int, float)) for ms in (result.ms, result.model_ms))
    counts = isinstance(result.tried, int) and isinstance(result.rejected, int)
    texts = isinstance(result.mode, str) and isinstance(result.by, str)
    return result if times and counts and texts else None
