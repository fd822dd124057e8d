"""Queries on browser sessions."""

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, delete, select, update
from sqlalchemy.orm import Session

from pock_server.actor import Actor
from pock_server.auth.repository import own_keys
from pock_server.auth.tables import ApiKeyRecord
from pock_server.db.repository import Repository
from pock_server.sessions.tables import BrowserSessionRecord


class BrowserSessions(Repository[BrowserSessionRecord]):
    """The sessions of one workspace."""

    row_class = BrowserSessionRecord
    noun = "session"


def own_sessions(actor: Actor) -> ColumnElement[bool]:
    """Sessions opened with the actor's own keys."""
    return BrowserSessionRecord.key_id.in_(select(ApiKeyRecord.id).where(own_keys(actor)))


def live(now: datetime, idle: timedelta) -> ColumnElement[bool]:
    """Sessions that neither are too old nor went unused for too long."""
    return (BrowserSessionRecord.expires_at > now) & (BrowserSessionRecord.last_used_at > now - idle)


def find_session_anywhere(session: Session, session_id: str) -> BrowserSessionRecord | None:
    """The session with this id; its workspace is what authentication finds out."""
    return session.get(BrowserSessionRecord, session_id)


def note_use(session: Session, session_id: str, now: datetime) -> None:
    """Note that the session was used; one that has just ended stays ended."""
    session.execute(update(BrowserSessionRecord).where(BrowserSessionRecord.id == session_id).values(last_used_at=now))


def end_one(session: Session, session_id: str) -> bool:
    """End a session; False if it had ended, be it a moment ago by another request."""
    one = delete(BrowserSessionRecord).where(BrowserSessionRecord.id == session_id)
    return session.execute(one.returning(BrowserSessionRecord.id)).first() is not None


def end_sessions_of_key(session: Session, key_id: str) -> None:
    """End the sessions opened with a key."""
    session.execute(delete(BrowserSessionRecord).where(BrowserSessionRecord.key_id == key_id))


def end_sessions_of_member(session: Session, member_id: str) -> None:
    """End the sessions opened with any key of a member."""
    keys = select(ApiKeyRecord.id).where(ApiKeyRecord.member_id == member_id)
    session.execute(delete(BrowserSessionRecord).where(BrowserSessionRecord.key_id.in_(keys)))


def drop_dead(session: Session, now: datetime, idle: timedelta) -> None:
    """Forget the sessions of all workspaces that have expired."""
    session.execute(delete(BrowserSessionRecord).where(~live(now, idle)))
