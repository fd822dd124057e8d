"""Hands out work to agents and says which bytes they may touch."""

from sqlalchemy.orm import Session

from pock_server.db.unit import Database
from pock_server.devices.repository import Devices
from pock_server.devices.sessions import AgentCaller
from pock_server.devices.tables import DeviceRecord
from pock_server.http.problems import Failure, Problem
from pock_server.runs.envelope import seal
from pock_server.runs.leases import lease_next
from pock_server.runs.repository import Runs
from pock_server.runs.schemas import RunState, WorkEnvelope
from pock_server.runs.service import gather_work
from pock_server.services import Services
from pock_server.signing import Signer
from pock_server.trust.keyring import KeyRing
from pock_server.trust.wrapping import CannotUnwrap


def has_work(database: Database, agent: AgentCaller) -> bool:
    """Whether a run of the device is not over; asked by every waiting device, so it is one query that locks nothing."""
    with database.read() as session:
        return Runs(session, agent.workspace_id).has_open(agent.device_id)


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
        signer = _signer_for(unit.session, services.keys, device, trust)
        run = lease_next(unit, device, services.settings, now)
        if run is None or run.lease_expires_at is None:
            return None
        # An agent takes the latest time that was ever signed for the present one: where this clock was set back, work
        # would look older than what came before it, and be refused.
        device.work_signed_at = issued_at = max(now, device.work_signed_at or now)
        expires_at = issued_at + (run.lease_expires_at - now)
        return seal(gather_work(unit.session, run), signer, device.work_counter, issued_at, expires_at)


def _signer_for(session: Session, keys: KeyRing, device: DeviceRecord, trust: int | None) -> Signer:
    """The key that the agent believes; raises a 401 `Problem` if that is one which was revoked."""
    if trust is not None or device.signing_key_id is None:
        return keys.current(session).signer
    try:
        return keys.signer(session, device.signing_key_id)
    except CannotUnwrap:
        detail = f"This device believes only the key {device.signing_key_id}, which was revoked; enrol it again."
        raise Problem(Failure.DEVICE_REVOKED, detail) from None


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
