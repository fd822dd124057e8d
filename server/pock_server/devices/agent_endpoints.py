"""Enrolment, sessions and heartbeats over HTTP, for agents."""

from datetime import timedelta

from fastapi import APIRouter, Request

from pock_server.actor import Actor, ActorKind, source_of
from pock_server.datasets.local import take_listing
from pock_server.datasets.schemas import LocalDataIn
from pock_server.dependencies import Agent, ServicesDep
from pock_server.devices import service
from pock_server.devices.facts import note_facts
from pock_server.devices.repository import Devices
from pock_server.devices.resting import note_rest
from pock_server.devices.schemas import EnrolIn, EnrolOut, HeartbeatIn, HeartbeatOut, SessionIn, SessionOut
from pock_server.devices.sessions import open_session
from pock_server.http.problems import PROBLEMS
from pock_server.policies.service import newer
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


@router.post("/agent/heartbeat", response_model_exclude_none=True)
def agent_heartbeat(body: HeartbeatIn, agent: Agent, services: ServicesDep) -> HeartbeatOut:
    """Tell that the device is alive, and learn which runs to stop and which policies to follow."""
    if body.facts is not None:
        with services.database.write() as unit:
            note_facts(Devices(unit.session, agent.workspace_id).require(agent.device_id), body.facts)
    cancel = []
    with services.database.read() as session:
        device = Devices(session, agent.workspace_id).require(agent.device_id)
        run = None if body.run_id is None else Runs(session, agent.workspace_id).find(body.run_id)
    if body.run_id is not None:
        mine = run is not None and run.device_id == agent.device_id and run.state in HELD
        if run is None or not mine or body.fence not in (None, run.fence):
            cancel.append(body.run_id)
    note_rest(services.database, agent, device, body.resting, services.clock.now())
    policy = None if body.policy is None else newer(services, agent, body.policy)
    wants_data = True if body.data is not None and body.data != (device.data_digest or "") else None
    seconds = services.fleet.heartbeat_seconds()
    return HeartbeatOut(heartbeat_seconds=seconds, cancel=cancel, policy=policy, wants_data=wants_data)


@router.put("/agent/datasets", status_code=204)
def put_agent_datasets(body: LocalDataIn, agent: Agent, services: ServicesDep) -> None:
    """Tell of all data that stays on the device; the service gets none of its bytes."""
    now = services.clock.now()
    with services.database.write() as unit:
        device = Devices(unit.session, agent.workspace_id).require(agent.device_id, lock=True)
        take_listing(unit, device, body, now)
        check(unit, services.settings, agent.workspace_id, now, Quota.DATASETS)
