"""Health over HTTP; no API key is needed, exactly for these paths."""

from fastapi import APIRouter, Request, Response

from pock_server.dependencies import ServicesDep
from pock_server.health.access import check_reader
from pock_server.health.schemas import Alive, Readiness
from pock_server.health.service import check_all
from pock_server.http.problems import PROBLEMS, Failure, Problem
from pock_server.observing.metrics import CONTENT_TYPE

router = APIRouter(tags=["health"], responses=PROBLEMS)


@router.get("/healthz")
async def healthz() -> Alive:
    """The process is alive; waits for nothing."""
    return Alive()


@router.get("/readyz")
async def readyz(services: ServicesDep) -> Readiness:
    """Database, migrations and object store are ready; a broker is looked at, too."""
    checks = await services.readiness.ask(lambda: check_all(services))
    broken = [f"{check.name} ({check.detail})" for check in checks if check.needed and not check.ok]
    if broken:
        raise Problem(Failure.NOT_READY, f"Not ready: {'; '.join(broken)}.", {"Retry-After": "5"})
    return Readiness(status="ok", checks=checks)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(request: Request, services: ServicesDep) -> Response:
    """Prometheus metrics, for whoever has the token; without one, for this machine."""
    check_reader(request, services.settings.metrics_token)
    return Response(services.metrics.render(), media_type=CONTENT_TYPE)
