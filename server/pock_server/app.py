"""Puts the service together as one ASGI application."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

from anyio.to_thread import current_default_thread_limiter
from fastapi import APIRouter, Depends, FastAPI
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.routing import BaseRoute
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

import pock_server.agent_releases.endpoints
import pock_server.artifacts.endpoints
import pock_server.audit.endpoints
import pock_server.auth.endpoints
import pock_server.benchmarks.endpoints
import pock_server.blobs.endpoints
import pock_server.builds.endpoints
import pock_server.campaigns.endpoints
import pock_server.checks.endpoints
import pock_server.datasets.endpoints
import pock_server.devices.agent_endpoints
import pock_server.devices.endpoints
import pock_server.federations.endpoints
import pock_server.following.endpoints
import pock_server.health.endpoints
import pock_server.me.endpoints
import pock_server.members.endpoints
import pock_server.models.endpoints
import pock_server.overview.endpoints
import pock_server.policies.endpoints
import pock_server.recipes.endpoints
import pock_server.regressions.endpoints
import pock_server.rollouts.agent_endpoints
import pock_server.rollouts.endpoints
import pock_server.runs.agent_endpoints
import pock_server.runs.endpoints
import pock_server.schedules.endpoints
import pock_server.searches.endpoints
import pock_server.sessions.endpoints
import pock_server.targets.endpoints
import pock_server.trust.endpoints
import pock_server.tuning.endpoints
import pock_server.usage.endpoints
import pock_server.web.pages
import pock_server.webhooks.endpoints
from pock_server import __version__, openapi
from pock_server.blobs import answers
from pock_server.checks.desk import Desk
from pock_server.clock import Clock
from pock_server.gate.middleware import GateMiddleware
from pock_server.http import problems
from pock_server.http.headers import HeadersMiddleware
from pock_server.http.storable import refuse_unstorable
from pock_server.idempotency.middleware import IdempotencyMiddleware
from pock_server.observing.logs import fields
from pock_server.observing.middleware import ObservingMiddleware
from pock_server.runner.background import Background
from pock_server.services import Services, make_services
from pock_server.settings import Settings
from pock_server.trust.start import secure_keys

_log = logging.getLogger("pock_server")
_ROUTERS = (
    pock_server.devices.agent_endpoints.router,
    pock_server.runs.agent_endpoints.router,
    pock_server.blobs.endpoints.router,
    pock_server.models.endpoints.router,
    pock_server.checks.endpoints.router,
    pock_server.datasets.endpoints.router,
    pock_server.recipes.endpoints.router,
    pock_server.targets.endpoints.router,
    pock_server.builds.endpoints.router,
    pock_server.searches.endpoints.router,
    pock_server.artifacts.endpoints.router,
    pock_server.devices.endpoints.router,
    pock_server.policies.endpoints.router,
    pock_server.runs.endpoints.router,
    pock_server.benchmarks.endpoints.router,
    pock_server.regressions.endpoints.router,
    pock_server.webhooks.endpoints.router,
    pock_server.campaigns.endpoints.router,
    pock_server.schedules.endpoints.router,
    pock_server.federations.endpoints.router,
    pock_server.following.endpoints.router,
    pock_server.overview.endpoints.router,
    pock_server.usage.endpoints.router,
    pock_server.auth.endpoints.router,
    pock_server.members.endpoints.router,
    pock_server.sessions.endpoints.router,
    pock_server.me.endpoints.router,
    pock_server.audit.endpoints.router,
    pock_server.trust.endpoints.router,
    pock_server.tuning.endpoints.router,
    pock_server.agent_releases.endpoints.router,
    pock_server.rollouts.agent_endpoints.router,
    pock_server.rollouts.endpoints.router,
)
"""Asked in this order, one after the other: those of the fleet, which calls most, come first."""
_AS_THEY_ARE = (*DEFAULT_EXCLUDED_CONTENT_TYPES, "application/octet-stream")
"""Answers that are not compressed: streams of events, whose parts must not wait, blobs, what is compressed already."""
_CREATE_WORK = (
    "/v1/models",
    "/v1/datasets",
    "/v1/recipes",
    "/v1/builds",
    "/v1/searches",
    "/v1/runs",
    "/v1/federations",
    "/v1/benchmarks",
    "/v1/campaigns",
    "/v1/schedules",
    "/v1/agent-releases",
    "/v1/rollouts",
)
"""POSTs that honour `Idempotency-Key`."""


def create_app(settings: Settings, clock: Clock | None = None) -> FastAPI:
    """The application for these settings; the database must have been migrated before it serves."""
    services = make_services(settings, clock)
    app = FastAPI(
        title="PockEngine",
        version=__version__,
        description="Compiles fine-tuning steps and runs them on a fleet of devices.",
        # Their pages load scripts from elsewhere, which the content security policy forbids.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    app.router.routes.extend(_routes())  # behind the document's, which the page's `/{path}` would take
    app.state.services = services
    app.state.desk, app.state.approximating = Desk(services), Desk(services)
    problems.install(app)
    answers.install(app)
    openapi.install(app)
    app.add_middleware(IdempotencyMiddleware, services=services, paths=_CREATE_WORK)
    app.add_middleware(GateMiddleware, services=services)
    app.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=5, exclude_content_types=_AS_THEY_ARE)
    observers = (services.traces.request, services.metrics.request)
    app.add_middleware(ObservingMiddleware, observers=observers, templates=_templates(app))
    app.add_middleware(HeadersMiddleware)
    if settings.trusted_proxies:
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=settings.trusted_proxies)
    return app


@cache
def _routes() -> tuple[BaseRoute, ...]:
    """All routes. FastAPI takes 0.4 s to make them, and applications of one process have the same."""
    whole = APIRouter(generate_unique_id_function=_operation_id)
    api = APIRouter(prefix="/v1", dependencies=[Depends(refuse_unstorable)])
    for router in _ROUTERS:
        api.include_router(router)
    for router in (api, pock_server.health.endpoints.router, pock_server.web.pages.router):
        whole.include_router(router)
    return tuple(whole.routes)


def _templates(app: FastAPI) -> dict[str, str]:
    """Operation ids and their paths."""
    return {str(route.name): str(route.path_format) for route in iter_route_contexts(app.routes) if route.path_format}


def _operation_id(route: APIRoute) -> str:
    return route.name


@asynccontextmanager
async def _open(desk: Desk) -> AsyncIterator[None]:
    tidying = asyncio.create_task(desk.tidy_forever())
    yield
    tidying.cancel()
    await asyncio.wait({tidying})


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    services = app.state.services
    assert isinstance(services, Services)
    current_default_thread_limiter().total_tokens = services.settings.threads
    await run_in_threadpool(secure_keys, services)
    words = fields(
        version=__version__,
        process=os.getpid(),
        database=services.database.engine.dialect.name,
        runner=services.settings.runner,
    )
    _log.info("the service starts", extra=words)
    async with Background(services), _open(app.state.desk), _open(app.state.approximating):
        yield
        _log.info("the service stops", extra=words)
    await run_in_threadpool(services.traces.close)
    services.database.engine.dispose()
