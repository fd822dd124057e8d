"""The overview over HTTP."""

from fastapi import APIRouter

from pock_server.dependencies import Reader, ServicesDep
from pock_server.devices.presence import heard_since
from pock_server.http.problems import PROBLEMS
from pock_server.overview import service
from pock_server.overview.schemas import OverviewOut

router = APIRouter(prefix="/overview", tags=["overview"], responses=PROBLEMS)


@router.get("")
def get_overview(caller: Reader, services: ServicesDep) -> OverviewOut:
    """How many models, data, devices, builds and runs there are, by state; and what needs somebody."""
    now = services.clock.now()
    since = heard_since(now, services.fleet.heartbeat_seconds())
    with services.database.read() as session:
        return service.overview(session, caller.workspace_id, now, since)
