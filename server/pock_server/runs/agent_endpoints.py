"""Work, leases, events and results over HTTP, for agents."""

import random
import time
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from pock_server.blobs.download import blob_response
from pock_server.blobs.endpoints import BYTES, DOWNLOAD
from pock_server.blobs.repository import Blobs
from pock_server.blobs.schemas import UploadIn
from pock_server.blobs.service import Receiver, start_upload
from pock_server.dependencies import Agent, ServicesDep
from pock_server.devices.sessions import AgentCaller
from pock_server.devices.trust import note_trust
from pock_server.http.fields import Digest, Id
from pock_server.http.long_bodies import LongBodies
from pock_server.http.problems import PROBLEMS
from pock_server.hub import SELDOM_SECONDS
from pock_server.quotas.service import Quota, check
from pock_server.runs import leases, reports
from pock_server.runs.agent_service import look_for, require_readable, require_writable, take_work
from pock_server.runs.schemas import (
    BlobStored,
    DeclineIn,
    EventsIn,
    EventsOut,
    LeaseIn,
    LeaseOut,
    ResultIn,
    ResultOut,
    RunState,
    WorkEnvelope,
)
from pock_server.services import Services

router = APIRouter(prefix="/agent", tags=["agents"], responses=PROBLEMS, route_class=LongBodies)

TRUST_HEADER = "Pock-Trust-Version"
"""Tells agents of the newest trust document, so that they fetch it."""
UPDATE_HEADER = "Pock-Update"
"""Tells agents that another version is offered to them, and by which rollout."""
_SHORTEST_WAIT = 0.5
"""Part of the wait asked for after which a poll may end: devices that began together, as after a restart of the
service, are soon spread over time, instead of coming back together for ever."""


@router.get("/work", response_model=WorkEnvelope, responses={204: {"description": "Nothing to do; ask again."}})
async def get_work(
    request: Request,
    agent: Agent,
    services: ServicesDep,
    wait: Annotated[float, Query(ge=0, le=60, description="Seconds to wait for work.")] = 0,
    trust: Annotated[int | None, Query(ge=1, le=2**31 - 1, description="Trust document that the agent has.")] = None,
    update: Annotated[
        str | None, Query(max_length=36, description="Rollout whose offer the agent considered last; `none`: none.")
    ] = None,
) -> Response:
    """Wait for the next piece of work."""
    if trust != agent.trust_version:
        await run_in_threadpool(note_trust, services.database, agent, trust)
    patience = min(wait, services.settings.poll_seconds) * random.uniform(_SHORTEST_WAIT, 1)
    deadline = time.monotonic() + patience
    with services.hub.listen(f"device:{agent.device_id}") as bell:
        while True:
            seen = await run_in_threadpool(_look, services, agent, update is not None)
            headers = {TRUST_HEADER: str(seen.trust), **({} if seen.offer is None else {UPDATE_HEADER: seen.offer})}
            news = seen.offer not in (None, update)  # before the next work, which may never end
            if seen.work and not news and not await request.is_disconnected():
                envelope = await run_in_threadpool(take_work, services, agent, trust)
                if envelope is not None:
                    return JSONResponse(envelope.model_dump(), headers=headers)
            remaining = deadline - time.monotonic()
            if remaining <= 0 or services.hub.closing or news:
                break
            await bell.wait(min(remaining, SELDOM_SECONDS))
    return Response(status_code=204, headers={**headers, "Retry-After": "2"} if services.hub.closing else headers)


@dataclass(frozen=True)
class _Seen:
    """Whether there may be work; the newest trust document's version; the rollout that offers another agent."""

    work: bool
    trust: int
    offer: str | None


def _look(services: Services, agent: AgentCaller, updates: bool) -> _Seen:
    """What there is for the agent; `updates`: it knows offers of other versions."""
    work, offer = look_for(services.database, agent, updates, services.clock.now())
    return _Seen(work, services.keys.announced(services.database), offer)


@router.post("/runs/{run_id}/lease")
def renew_lease(run_id: Id, body: LeaseIn, agent: Agent, services: ServicesDep) -> LeaseOut:
    """Renew the lease; nothing may start before this has succeeded once."""
    with services.database.write() as unit:
        run = leases.require_lease(unit, agent.device_id, agent.workspace_id, run_id, body.fence)
        return leases.renew(unit, run, services.settings, services.clock.now(), body.paused)


@router.post("/runs/{run_id}/decline")
def decline_run(run_id: Id, body: DeclineIn, agent: Agent, services: ServicesDep) -> ResultOut:
    """Give a run back that was leased and not begun: it waits again, and the attempt does not count."""
    with services.database.write() as unit:
        run = leases.require_lease(unit, agent.device_id, agent.workspace_id, run_id, body.fence)
        leases.decline(unit, run, services.clock.now(), body.reason)
        return ResultOut(state=RunState(run.state))


@router.post("/runs/{run_id}/events")
def post_run_events(run_id: Id, body: EventsIn, agent: Agent, services: ServicesDep) -> EventsOut:
    """Report the executable's lines; those already received are ignored."""
    with services.database.write() as unit:
        run = leases.require_lease(unit, agent.device_id, agent.workspace_id, run_id, body.fence)
        return EventsOut(next_seq=reports.take_events(unit, run, body, services.clock.now()))


@router.post("/runs/{run_id}/result")
def post_run_result(run_id: Id, body: ResultIn, agent: Agent, services: ServicesDep) -> ResultOut:
    """Report the end of a run."""
    with services.database.write() as unit:
        run = leases.require_lease(unit, agent.device_id, agent.workspace_id, run_id, body.fence)
        return ResultOut(state=reports.take_result(unit, run, body, services.clock.now()))


@router.get("/blobs/sha256/{digest}", response_class=Response, responses=DOWNLOAD)
async def get_agent_blob(digest: Digest, request: Request, agent: Agent, services: ServicesDep) -> Response:
    """Download a blob of the current work, or a range of it."""
    size = await run_in_threadpool(_readable_size, services, agent, digest)
    return await blob_response(request, services, digest, size)


def _readable_size(services: Services, agent: AgentCaller, digest: str) -> int:
    with services.database.read() as session:
        require_readable(session, agent, digest)
        return Blobs(session, agent.workspace_id).require(digest).size


@router.put(
    "/blobs/sha256/{digest}",
    status_code=201,
    response_model=BlobStored,
    responses={200: {"model": BlobStored, "description": "The blob is known."}},
    openapi_extra={"requestBody": {"required": True, "content": BYTES}},
)
async def put_agent_blob(
    digest: Digest,
    request: Request,
    agent: Agent,
    services: ServicesDep,
    content_length: Annotated[int, Header(ge=1, le=2**53, description="Bytes.")],
) -> Response:
    """Store trained weights."""
    upload_id, known = await run_in_threadpool(_start, services, agent, digest, content_length)
    stored = BlobStored(digest=digest, size=content_length)
    if known:
        return JSONResponse(stored.model_dump(), status_code=200)
    try:
        await Receiver(services, agent.workspace_id, upload_id).receive(0, request.stream())
    except ClientDisconnect:
        return Response(status_code=400)
    return JSONResponse(stored.model_dump(), status_code=201)


def _start(services: Services, agent: AgentCaller, digest: str, size: int) -> tuple[str, bool]:
    with services.database.write() as unit:
        require_writable(unit.session, agent)
        row = start_upload(unit, services, agent.workspace_id, UploadIn(digest=digest, size=size))
        if not row.complete:
            check(unit, services.settings, agent.workspace_id, services.clock.now(), Quota.BYTES, Quota.UPLOADS)
        return row.id, row.complete
