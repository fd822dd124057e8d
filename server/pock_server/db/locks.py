"""What processes on one PostgreSQL do one at a time, by its advisory locks. SQLite serves one process, whose
transactions that write are alone: there is nothing to lock."""

from enum import IntEnum

import psycopg
from sqlalchemy import Connection, text
from sqlalchemy.orm import Session

_HOLD = text("SELECT pg_advisory_xact_lock(:key)")
_DIGEST_DIGITS = 15
"""Of a digest's hexadecimal digits: 60 bits, below every number of `Lock`."""


class Lock(IntEnum):
    """What is done by one at a time; each number is eight letters, and stays, as older processes may run beside us."""

    MIGRATE = int.from_bytes(b"pockmigr")
    """Change the schema."""
    LEAD = int.from_bytes(b"pocklead")
    """Sweep for all processes."""
    MAKE_KEYS = int.from_bytes(b"pockkeys")
    """Make the service's keys, renew its trust document, change the key that they lie under."""
    TAKE_BUILD = int.from_bytes(b"pocktake")
    """Take the next build."""


def hold(transaction: Session | Connection, lock: Lock) -> None:
    """Wait until nobody else holds the lock; hold it until the end of the transaction."""
    _hold(transaction, lock)


def hold_digest(transaction: Session | Connection, digest: str) -> None:
    """The same for whoever makes or collects claims of this blob. Two blobs may share a lock: that costs only time."""
    _hold(transaction, int(digest[:_DIGEST_DIGITS], 16))


def try_to_keep(line: psycopg.Connection, lock: Lock) -> bool:
    """Take the lock for as long as this connection lasts, unless somebody has it. Asked again by whoever has it, it
    would have to be given back twice."""
    found = line.execute("SELECT pg_try_advisory_lock(%s)", (int(lock),)).fetchone()
    return found is not None and bool(found[0])


def _hold(transaction: Session | Connection, key: int) -> None:
    bind = transaction.get_bind() if isinstance(transaction, Session) else transaction
    if bind.dialect.name == "postgresql":
        transaction.execute(_HOLD, {"key": int(key)})
