"""Enrolment, sessions and heartbeats over HTTP, for agents."""

from datetime import timedelta

from fastapi import APIRouter, Request

from pock_server.actor import Actor, ActorKind, source_of
from pock_server.dependencies import Agent, ServicesDep
from pock_server.devices import service
from pock_server.devices.facts import note_facts
from pock_server.devices.repository import Devices
from pock_server.devices.schemas import EnrolIn, EnrolOut, HeartbeatIn, HeartbeatOut, SessionIn, SessionOut
from pock_server.devices.sessions import open_session
from pock_server.http.problems import PROBLEMS
from pock_server.quotas.service import Quota, check
from pock_server.runs.lifecycle import HELD
from pock_server.runs.repository import Runs

router = APIRouter(tags=["agents"], responses=PROBLEMS)


@router.post("/enroll", status_code=201)
def enroll(body: EnrolIn, request: Request, services: ServicesDep) -> EnrolOut:
    """Turn an enrolment token and a public key into a device."""
    by = Actor(ActorKind.DEVICE, body.name, source=source_of(request))
    with services.database.write(by) as unit:
        keys = services.keys.current(unit.session)
        device = service.enrol(unit, body, keys.signer.key_id, services.clock.now())
        check(unit, services.settings, device.workspace_id, services.clock.now(), Quota.DEVICES)
        return EnrolOut(
            device_id=device.id,
            server_public_key=keys.signer.public_key,
            key_id=keys.signer.key_id,
            trust=keys.document,
            heartbeat_seconds=services.fleet.heartbeat_seconds(),
            poll_seconds=services.settings.poll_seconds,
        )


@router.post("/agent/session")
def open_agent_session(body: SessionIn, request: Request, services: ServicesDep) -> SessionOut:
    """Open a session with a signature by the device's key; ends the earlier session."""
    life = timedelta(seconds=services.settings.session_seconds)
    opened = open_session(services.database, body, services.clock.now(), life, source_of(request))
    heartbeat = services.fleet.heartbeat_seconds()
    return SessionOut(session_token=opened.token, expires_at=opened.expires_at, heartbeat_seconds=heartbeat)


@router.post("/agent/heartbeat")
def agent_heartbeat(body: HeartbeatIn, agent: Agent, services: ServicesDep) -> HeartbeatOut:
    """Tell that the device is alive, and learn which runs to stop."""
    if body.facts is not None:
        with services.database.write() as unit:
            note_facts(Devices(unit.session, agent.workspace_id).require(agent.device_id), body.facts)
    cancel = []
    if body.run_id is not None:
        with services.database.read() as session:
            run = Runs(session, agent.workspace_id).find(body.run_id)
        mine = run is not None and run.device_id == agent.device_id and run.state in HELD
        if run is None or not mine or body.fence not in (None, run.fence):
            cancel.append(body.run_id)
    return HeartbeatOut(heartbeat_seconds=services.fleet.heartbeat_seconds(), cancel=cancel)
