"""What a workspace uses, over HTTP."""

from fastapi import APIRouter

from pock_server.dependencies import Reader, ServicesDep
from pock_server.http.problems import PROBLEMS
from pock_server.usage import service
from pock_server.usage.schemas import UsageOut

router = APIRouter(prefix="/usage", tags=["usage"], responses=PROBLEMS)


@router.get("")
def get_usage(caller: Reader, services: ServicesDep) -> UsageOut:
    """How much of what it may have the workspace has; what is stored; what waits, and what build workers do."""
    with services.database.read() as session:
        return service.usage(session, services.settings, caller.workspace_id, services.clock.now())
