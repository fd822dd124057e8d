"""Hands out work to agents and says which bytes they may touch."""

from datetime import datetime

from sqlalchemy.orm import Session

from pock_server.db.unit import Database
from pock_server.devices.repository import Devices
from pock_server.devices.sessions import AgentCaller
from pock_server.devices.trust import signer_for
from pock_server.http.problems import Failure, Problem
from pock_server.rollouts.repository import is_offered_file, offered
from pock_server.runs.envelope import seal
from pock_server.runs.leases import lease_next
from pock_server.runs.repository import Runs
from pock_server.runs.schemas import RunState, WorkEnvelope
from pock_server.runs.service import gather_work
from pock_server.services import Services


def look_for(database: Database, agent: AgentCaller, updates: bool, now: datetime) -> tuple[bool, str | None]:
    """Whether there may be work for the device, and which rollout offers it another agent, if it knows such `updates`.
    Every waiting device asks, so these are queries by an index, which lock nothing."""
    with database.read() as session:
        work = Runs(session, agent.workspace_id).has_work(agent.device_id, now)
        return work, offered(session, agent.device_id) if updates else None


def take_work(services: Services, agent: AgentCaller, trust: int | None) -> WorkEnvelope | None:
    """Lease the device's next run to it, or None if there is none, or somebody changed it at this moment.

    `trust`: version of the trust document that the agent has. One with none believes only the key that it pinned.
    """
    try:
        return _lease(services, agent, trust)
    except Problem as problem:
        if problem.failure is not Failure.STATE_CONFLICT:
            raise
        return None


def _lease(services: Services, agent: AgentCaller, trust: int | None) -> WorkEnvelope | None:
    now = services.clock.now()
    with services.database.write() as unit:
        device = Devices(unit.session, agent.workspace_id).require(agent.device_id, lock=True)
        # The agent may have restarted while this request waited: work must not go to a listener that is gone.
        if device.session_id != agent.session_id:
            raise Problem(Failure.SESSION_EXPIRED, "This session was replaced; open a new one.")
        signer = signer_for(unit.session, services.keys, device, trust)
        run = lease_next(unit, device, services.settings, now)
        if run is None or run.lease_expires_at is None:
            return None
        # An agent takes the latest time that was ever signed for the present one: where this clock was set back, work
        # would look older than what came before it, and be refused.
        device.work_signed_at = issued_at = max(now, device.work_signed_at or now)
        expires_at = issued_at + (run.lease_expires_at - now)
        return seal(gather_work(unit.session, run), signer, device.work_counter, issued_at, expires_at)


def require_readable(session: Session, agent: AgentCaller, digest: str) -> None:
    """Raise a 404 `Problem` unless the device's current work, or what is offered to it, names the blob."""
    if is_offered_file(session, agent.device_id, digest):
        return
    run = Runs(session, agent.workspace_id).held_by(agent.device_id)
    if run is None or digest not in gather_work(session, run).digests():
        raise Problem(Failure.NOT_FOUND, f"Blob {digest} is not part of this device's current work.")


def require_writable(session: Session, agent: AgentCaller) -> None:
    """Raise a 409 `Problem` unless the device runs something that saves weights."""
    run = Runs(session, agent.workspace_id).held_by(agent.device_id)
    if run is None or run.state != RunState.RUNNING or not run.save_weights:
        raise Problem(Failure.STATE_CONFLICT, "This device runs nothing that saves weights.")
