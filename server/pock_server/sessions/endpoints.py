"""Signing in and out of a browser, over HTTP; and who is signed in."""

from datetime import timedelta

from fastapi import APIRouter, Request, Response

from pock_server.auth.repository import ApiKeys
from pock_server.dependencies import Anyone, KeyAdmin, ServicesDep
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS, Failure, Problem
from pock_server.sessions import cookie, service
from pock_server.sessions.repository import BrowserSessions, live
from pock_server.sessions.schemas import BrowserSessionOut, BrowserSessionPage

router = APIRouter(tags=["sessions"], responses=PROBLEMS)


@router.post("/session", status_code=201)
def sign_in(request: Request, response: Response, caller: Anyone, services: ServicesDep) -> BrowserSessionOut:
    """Open a browser session with an API key; its token is in an `HttpOnly` cookie and nowhere else."""
    if caller.actor.session_id is not None:
        raise Problem(Failure.STATE_CONFLICT, "Send an API key; a session cannot open another one.")
    settings = services.settings
    with services.database.write(caller.actor) as unit:
        key = ApiKeys(unit.session, caller.workspace_id).require(caller.key_id)
        now = services.clock.now()
        opened = service.open_session(unit, key, timedelta(seconds=settings.browser_session_seconds), now)
        described = service.describe(opened.row)
    seconds = int((described.expires_at - described.created_at).total_seconds())
    cookie.give(response, request, settings, opened.token, seconds)
    return described


@router.delete("/session", status_code=204)
def sign_out(request: Request, response: Response, caller: Anyone, services: ServicesDep) -> None:
    """End the session of this browser."""
    if caller.actor.session_id is None:
        raise Problem(Failure.STATE_CONFLICT, "This request carries an API key, not a session; revoke the key instead.")
    with services.database.write(caller.actor) as unit:
        row = BrowserSessions(unit.session, caller.workspace_id).require(caller.actor.session_id)
        service.end_session(unit, row, services.clock.now())
    cookie.take(response, request, services.settings)


@router.get("/sessions")
def list_sessions(caller: KeyAdmin, services: ServicesDep, page: PageQuery) -> BrowserSessionPage:
    """List the workspace's signed-in browsers."""
    now, idle = services.clock.now(), timedelta(seconds=services.settings.browser_idle_seconds)
    with services.database.read() as session:
        found = BrowserSessions(session, caller.workspace_id).page(page, live(now, idle))
        return BrowserSessionPage(items=[service.describe(row) for row in found.rows], next_cursor=found.next_cursor)


@router.delete("/sessions/{session_id}", status_code=204)
def end_session(session_id: Id, caller: KeyAdmin, services: ServicesDep) -> None:
    """Sign a browser out from afar."""
    with services.database.write(caller.actor) as unit:
        row = BrowserSessions(unit.session, caller.workspace_id).require(session_id)
        service.end_session(unit, row, services.clock.now())
