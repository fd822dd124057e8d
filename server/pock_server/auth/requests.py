"""Finds out who is behind a request: an API key in the header, or else the session cookie of our own page."""

from dataclasses import replace
from datetime import datetime, timedelta

from starlette.requests import HTTPConnection

from pock_server.actor import Actor, ActorKind, Source, source_of
from pock_server.auth import secrets
from pock_server.auth.repository import find_key_anywhere
from pock_server.auth.schemas import Scope
from pock_server.auth.service import Caller, granted, refuse_dead, unknown_key
from pock_server.auth.tables import ApiKeyRecord
from pock_server.http.problems import Problem
from pock_server.services import Services
from pock_server.sessions import cookie
from pock_server.sessions.repository import find_session_anywhere
from pock_server.sessions.service import find_session


def authenticate(services: Services, connection: HTTPConnection) -> Caller:
    """The caller; raises a 401 `Problem` for credentials that open nothing, a 403 one for a cookie used from elsewhere.

    A header is never overlooked in favour of a cookie: whoever sends a key means that key.
    """
    header = connection.headers.get("Authorization")
    if header is not None:
        kind, _, text = header.partition(" ")
        return by_key(services, text.strip() if kind.lower() == "bearer" else "", source_of(connection))
    token = cookie.read(connection, services.settings)
    if token is None:
        raise unknown_key()
    return by_session(services, connection, token)


def by_key(services: Services, text: str, source: Source) -> Caller:
    """The caller whose key this is."""
    credential = secrets.parse(text, secrets.Kind.API_KEY)
    with services.database.read() as session:
        row = find_key_anywhere(session, credential.row_id) if credential else None
    if credential is None or row is None or not credential.matches(row.secret_hash):
        raise unknown_key()
    return _caller(row, services.clock.now(), source)


def by_session(services: Services, connection: HTTPConnection, token: str) -> Caller:
    """The caller whose cookie holds this token."""
    cookie.refuse_other_origins(connection, services.settings)
    now = services.clock.now()
    row = find_session(services.database, token, now, timedelta(seconds=services.settings.browser_idle_seconds))
    found = _caller(row.key, now, source_of(connection))
    return replace(found, actor=replace(found.actor, kind=ActorKind.SESSION, session_id=row.id))


def may_still(services: Services, caller: Caller, scope: Scope) -> bool:
    """Whether somebody who was let in a while ago, and is still being served, would be let in now."""
    now, session_id = services.clock.now(), caller.actor.session_id
    with services.database.read() as session:
        key = find_key_anywhere(session, caller.key_id)
        opened = find_session_anywhere(session, session_id) if session_id else None
    if key is None or (session_id is not None and (opened is None or opened.expires_at <= now)):
        return False
    try:
        refuse_dead(key, now)
    except Problem:
        return False
    return scope in granted(key)


def _caller(row: ApiKeyRecord, now: datetime, source: Source) -> Caller:
    refuse_dead(row, now)
    actor = Actor(
        ActorKind.API_KEY,
        row.member.name if row.member else row.name,
        member_id=row.member_id,
        key_id=row.id,
        source=source,
    )
    return Caller(row.workspace_id, row.id, granted(row), actor)
