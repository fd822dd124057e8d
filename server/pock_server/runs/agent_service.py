"""Hands out work to agents and says which bytes they may touch."""

from sqlalchemy.orm import Session

from pock_server.devices.repository import Devices
from pock_server.devices.sessions import AgentCaller
from pock_server.http.problems import Failure, Problem
from pock_server.runs.envelope import seal
from pock_server.runs.leases import lease_next
from pock_server.runs.repository import Runs
from pock_server.runs.schemas import RunState, WorkEnvelope
from pock_server.runs.service import gather_work
from pock_server.services import Services


def take_work(services: Services, agent: AgentCaller) -> WorkEnvelope | None:
    """Lease the device's next run to it, or None if there is none, or somebody changed it at this moment."""
    with services.database.read() as session:
        if not Runs(session, agent.workspace_id).open_of(agent.device_id):
            return None
    try:
        return _lease(services, agent)
    except Problem as problem:
        if problem.failure is not Failure.STATE_CONFLICT:
            raise
        return None


def _lease(services: Services, agent: AgentCaller) -> WorkEnvelope | None:
    now = services.clock.now()
    with services.database.write() as unit:
        device = Devices(unit.session, agent.workspace_id).require(agent.device_id, lock=True)
        # The agent may have restarted while this request waited: work must not go to a listener that is gone.
        if device.session_id != agent.session_id:
            raise Problem(Failure.SESSION_EXPIRED, "This session was replaced; open a new one.")
        run = lease_next(unit, device, services.settings, now)
        if run is None or run.lease_expires_at is None:
            return None
        return seal(gather_work(unit.session, run), services.signer, device.work_counter, now, run.lease_expires_at)


def require_readable(session: Session, agent: AgentCaller, digest: str) -> None:
    """Raise a 404 `Problem` unless the device's current work names the blob."""
    run = Runs(session, agent.workspace_id).held_by(agent.device_id)
    if run is None or digest not in gather_work(session, run).digests():
        raise Problem(Failure.NOT_FOUND, f"Blob {digest} is not part of this device's current work.")


def require_writable(session: Session, agent: AgentCaller) -> None:
    """Raise a 409 `Problem` unless the device runs something that saves weights."""
    run = Runs(session, agent.workspace_id).held_by(agent.device_id)
    if run is None or run.state != RunState.RUNNING or not run.save_weights:
        raise Problem(Failure.STATE_CONFLICT, "This device runs nothing that saves weights.")
