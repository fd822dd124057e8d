"""Which processes of the service live: each holds an advisory lock, named after its hub, while it listens for rings.

PostgreSQL lets go of the lock when the connection ends, and so when the process ends, however that comes. A process
that lost its connection for a moment seems dead until it is back: taking over from the dead has to be safe even then.
On SQLite there is one process, and every other one is dead.
"""

from sqlalchemy import text
from sqlalchemy.orm import Session

_HELD = text(
    "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
    " AND classid = CAST(CAST(:high AS bigint) AS oid) AND objid = CAST(CAST(:low AS bigint) AS oid)"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
)


def sign_of_life(name: str) -> tuple[str, tuple[int]]:
    """The statement, and its parameters, by which a connection holds the lock of the process `name` until it ends.

    A shared lock: the connection of before, of whose end the database may not know yet, is not waited for.
    """
    return "SELECT pg_advisory_lock_shared(%s)", (int.from_bytes(bytes.fromhex(name), "big", signed=True),)


def is_alive(session: Session, name: str | None, own: str) -> bool:
    """Whether the process `name` lives, as far as the process `own` can tell; None is one of an older version."""
    if name is None or name == own:
        return True
    if session.get_bind().dialect.name != "postgresql":
        return False
    number = int(name, 16)
    return bool(session.execute(_HELD, {"high": number >> 32, "low": number & 0xFFFFFFFF}).scalar_one())
