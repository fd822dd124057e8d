"""What endpoints ask for: the services and the authenticated caller.

A transaction is not among them: it would be opened and committed in other turns of the thread pool than the endpoint's,
and with every thread waiting to begin, none would be left to commit. Endpoints open theirs in a `with` of their own.
"""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyCookie, HTTPAuthorizationCredentials, HTTPBearer

from pock_server.auth.schemas import Scope
from pock_server.auth.service import Caller, unknown_key
from pock_server.devices.sessions import AgentCaller, unknown_session
from pock_server.gate.credentials import CALLER
from pock_server.services import Services
from pock_server.sessions.cookie import PLAIN_NAME, SECURE_NAME

api_key = HTTPBearer(auto_error=False, scheme_name="apiKey", description="`pk_<id>_<secret>`")
browser_session = APIKeyCookie(
    name=SECURE_NAME,
    auto_error=False,
    scheme_name="browserSession",
    description=f"`POST /v1/session` sets it; without https it is named `{PLAIN_NAME}`.",
)
device_session = HTTPBearer(auto_error=False, scheme_name="deviceSession", description="`ps_<id>_<secret>`")


async def get_services(request: Request) -> Services:
    """The services of the application that received the request."""
    services = request.app.state.services
    assert isinstance(services, Services)
    return services


ServicesDep = Annotated[Services, Depends(get_services)]


def caller_with(*any_of: Scope) -> Callable[..., Coroutine[Any, Any, Caller]]:
    """A dependency that demands one of the scopes, or none at all, of whom the gate has let in."""

    scopes = [str(scope) for scope in any_of]  # the document tells them

    async def caller(
        request: Request,
        _key: Annotated[HTTPAuthorizationCredentials | None, Security(api_key, scopes=scopes)],
        _cookie: Annotated[str | None, Security(browser_session, scopes=scopes)],
    ) -> Caller:
        found = getattr(request.state, CALLER, None)
        if not isinstance(found, Caller):
            raise unknown_key()
        found.demand(*any_of)
        return found

    return caller


Anyone = Annotated[Caller, Depends(caller_with())]
Reader = Annotated[Caller, Depends(caller_with(Scope.READ))]
ModelWriter = Annotated[Caller, Depends(caller_with(Scope.MODELS_WRITE))]
UploadReader = Annotated[Caller, Depends(caller_with(Scope.READ, Scope.MODELS_WRITE))]
BuildWriter = Annotated[Caller, Depends(caller_with(Scope.BUILDS_WRITE))]
RunWriter = Annotated[Caller, Depends(caller_with(Scope.RUNS_WRITE))]
DeviceAdmin = Annotated[Caller, Depends(caller_with(Scope.DEVICES_ADMIN))]
KeyAdmin = Annotated[Caller, Depends(caller_with(Scope.KEYS_ADMIN))]
AuditReader = Annotated[Caller, Depends(caller_with(Scope.AUDIT_READ))]


async def agent_caller(
    request: Request, _bearer: Annotated[HTTPAuthorizationCredentials | None, Security(device_session)]
) -> AgentCaller:
    """The device behind the session token that the gate has checked."""
    found = getattr(request.state, CALLER, None)
    if not isinstance(found, AgentCaller):
        raise unknown_session()
    return found


Agent = Annotated[AgentCaller, Depends(agent_caller)]
