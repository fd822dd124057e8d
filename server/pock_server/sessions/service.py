"""Opens, checks and ends browser sessions."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from pock_server.audit.service import Action, made, record
from pock_server.auth import secrets
from pock_server.auth.tables import ApiKeyRecord
from pock_server.clock import new_id
from pock_server.db.unit import Database, Unit
from pock_server.http.problems import Failure, Problem
from pock_server.sessions.repository import BrowserSessions, end_one, find_session_anywhere, note_use
from pock_server.sessions.schemas import BrowserSessionOut
from pock_server.sessions.tables import BrowserSessionRecord

# `last_used_at` is written at most this often, and ten times within the idle time: looking must not become writing.
_USED_RESOLUTION = timedelta(minutes=1)


@dataclass(frozen=True)
class SignedIn:
    """A new session and the only copy of its token."""

    row: BrowserSessionRecord
    token: str


def open_session(unit: Unit, key: ApiKeyRecord, life: timedelta, now: datetime) -> SignedIn:
    """Open a session that lives as long as `life` and the key."""
    credential = secrets.generate(secrets.Kind.BROWSER_SESSION, new_id(now))
    row = BrowserSessionRecord(
        id=credential.row_id,
        workspace_id=key.workspace_id,
        created_at=now,
        key_id=key.id,
        secret_hash=credential.hash,
        expires_at=min(now + life, key.expires_at),
        last_used_at=now,
        address=unit.by.source.address,
        user_agent=unit.by.source.user_agent,
    )
    BrowserSessions(unit.session, key.workspace_id).add(row)
    record(unit, Action.SESSION_OPEN, row, unit.by.name, now, made(expires_at=row.expires_at.isoformat()))
    return SignedIn(row, credential.text)


def find_session(database: Database, token: str, now: datetime, idle: timedelta) -> BrowserSessionRecord:
    """The live session of a cookie, noted as used; raises a 401 `Problem` otherwise.

    Whether its key still opens anything is for the caller to check.
    """
    credential = secrets.parse(token, secrets.Kind.BROWSER_SESSION)
    with database.read() as session:
        row = find_session_anywhere(session, credential.row_id) if credential else None
    if credential is None or row is None or not credential.matches(row.secret_hash):
        raise Problem(Failure.SESSION_EXPIRED, "This browser's session has ended; sign in again.")
    if row.expires_at <= now or row.last_used_at + idle <= now:
        raise Problem(Failure.SESSION_EXPIRED, "This browser's session has expired; sign in again.")
    if now - row.last_used_at >= min(_USED_RESOLUTION, idle / 10):
        with database.write() as unit:
            note_use(unit.session, row.id, now)
    return row


def end_session(unit: Unit, row: BrowserSessionRecord, now: datetime) -> None:
    """Sign the browser out; nothing happens if another request has just done so."""
    if end_one(unit.session, row.id):
        record(unit, Action.SESSION_END, row, owner_of(row), now)


def owner_of(row: BrowserSessionRecord) -> str:
    """The name of the session's member, or of its key if that has none."""
    return row.key.member.name if row.key.member else row.key.name


def describe(row: BrowserSessionRecord) -> BrowserSessionOut:
    """The session as the API shows it."""
    return BrowserSessionOut(
        id=row.id,
        key_id=row.key_id,
        name=owner_of(row),
        address=row.address,
        user_agent=row.user_agent,
        created_at=row.created_at,
        last_used_at=row.last_used_at,
        expires_at=row.expires_at,
    )
