"""What endpoints ask for: the services and the authenticated caller.

A transaction is not among them: it would be opened and committed in other turns of the thread pool than the endpoint's,
and with every thread waiting to begin, none would be left to commit. Endpoints open theirs in a `with` of their own.
"""

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from pock_server.auth.schemas import Scope
from pock_server.auth.service import Caller, authenticate
from pock_server.devices.sessions import AgentCaller, authenticate_session
from pock_server.services import Services

api_key = HTTPBearer(auto_error=False, scheme_name="apiKey", description="`pk_<id>_<secret>`")
device_session = HTTPBearer(auto_error=False, scheme_name="deviceSession", description="`ps_<id>_<secret>`")


def get_services(request: Request) -> Services:
    """The services of the application that received the request."""
    services = request.app.state.services
    assert isinstance(services, Services)
    return services


ServicesDep = Annotated[Services, Depends(get_services)]


def caller_with(*any_of: Scope) -> Callable[..., Caller]:
    """A dependency that authenticates an API key and demands one of the scopes."""

    def caller(
        services: ServicesDep, bearer: Annotated[HTTPAuthorizationCredentials | None, Security(api_key)]
    ) -> Caller:
        with services.database.read() as session:
            found = authenticate(session, bearer.credentials if bearer else None, services.clock.now())
        found.demand(*any_of)
        return found

    return caller


Reader = Annotated[Caller, Depends(caller_with(Scope.READ))]
ModelWriter = Annotated[Caller, Depends(caller_with(Scope.MODELS_WRITE))]
UploadReader = Annotated[Caller, Depends(caller_with(Scope.READ, Scope.MODELS_WRITE))]
BuildWriter = Annotated[Caller, Depends(caller_with(Scope.BUILDS_WRITE))]
RunWriter = Annotated[Caller, Depends(caller_with(Scope.RUNS_WRITE))]
DeviceAdmin = Annotated[Caller, Depends(caller_with(Scope.DEVICES_ADMIN))]
KeyAdmin = Annotated[Caller, Depends(caller_with(Scope.KEYS_ADMIN))]


def agent_caller(
    services: ServicesDep, bearer: Annotated[HTTPAuthorizationCredentials | None, Security(device_session)]
) -> AgentCaller:
    """The device behind a session token; notes that it was seen."""
    found = authenticate_session(services.database, bearer.credentials if bearer else None, services.clock.now())
    services.fleet.saw(found.device_id)
    return found


Agent = Annotated[AgentCaller, Depends(agent_caller)]
