"""What everybody may ask and do about themselves, over HTTP."""

from datetime import timedelta

from fastapi import APIRouter

from pock_server.auth import service as keys
from pock_server.auth.repository import ApiKeys, own_keys, require_workspace
from pock_server.auth.schemas import ApiKeyPage, Scope
from pock_server.dependencies import Anyone, ServicesDep
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS
from pock_server.me.schemas import MeOut, NamedOut
from pock_server.members.service import describe as describe_member
from pock_server.sessions import service as sessions
from pock_server.sessions.repository import BrowserSessions, live, own_sessions
from pock_server.sessions.schemas import BrowserSessionPage

router = APIRouter(prefix="/me", tags=["me"], responses=PROBLEMS)


@router.get("")
def get_me(caller: Anyone, services: ServicesDep) -> MeOut:
    """Who the key or the session belongs to, and what it may do."""
    with services.database.read() as session:
        key = ApiKeys(session, caller.workspace_id).require(caller.key_id)
        workspace = require_workspace(session, caller.workspace_id)
        expires_at = key.expires_at
        if caller.actor.session_id is not None:
            row = BrowserSessions(session, caller.workspace_id).require(caller.actor.session_id)
            expires_at = min(expires_at, row.expires_at)
        return MeOut(
            name=caller.actor.name,
            member=describe_member(key.member) if key.member else None,
            workspace=NamedOut(id=workspace.id, name=workspace.name),
            key=NamedOut(id=key.id, name=key.name),
            session_id=caller.actor.session_id,
            scopes=[scope for scope in Scope if scope in caller.scopes],
            expires_at=expires_at,
        )


@router.get("/api-keys")
def list_my_api_keys(caller: Anyone, services: ServicesDep, page: PageQuery) -> ApiKeyPage:
    """List the caller's own keys: all of the member, or the one in use if it has no member."""
    with services.database.read() as session:
        found = ApiKeys(session, caller.workspace_id).page(page, own_keys(caller.actor))
        return ApiKeyPage(items=[keys.describe(row) for row in found.rows], next_cursor=found.next_cursor)


@router.delete("/api-keys/{key_id}", status_code=204)
def revoke_my_api_key(key_id: Id, caller: Anyone, services: ServicesDep) -> None:
    """Revoke one of the caller's own keys."""
    with services.database.write(caller.actor) as unit:
        row = ApiKeys(unit.session, caller.workspace_id).require(key_id, own_keys(caller.actor))
        keys.revoke_key(unit, row, services.clock.now())


@router.get("/sessions")
def list_my_sessions(caller: Anyone, services: ServicesDep, page: PageQuery) -> BrowserSessionPage:
    """List the browsers that are signed in with the caller's own keys."""
    now, idle = services.clock.now(), timedelta(seconds=services.settings.browser_idle_seconds)
    with services.database.read() as session:
        found = BrowserSessions(session, caller.workspace_id).page(page, live(now, idle), own_sessions(caller.actor))
        return BrowserSessionPage(items=[sessions.describe(row) for row in found.rows], next_cursor=found.next_cursor)


@router.delete("/sessions/{session_id}", status_code=204)
def end_my_session(session_id: Id, caller: Anyone, services: ServicesDep) -> None:
    """Sign out a browser that was signed in with one of the caller's own keys."""
    with services.database.write(caller.actor) as unit:
        row = BrowserSessions(unit.session, caller.workspace_id).require(session_id, own_sessions(caller.actor))
        sessions.end_session(unit, row, services.clock.now())
