"""What devices are offered, and what they tell of it."""

import base64
import json
from datetime import datetime, timedelta

from pock_server.agent_releases.service import document_of
from pock_server.db.unit import Unit
from pock_server.devices.sessions import AgentCaller
from pock_server.http.problems import Failure, Problem
from pock_server.hub import DUTIES_TOPIC
from pock_server.rollouts.repository import RolloutDevices, Rollouts, offer_of
from pock_server.rollouts.schemas import UpdateOffer, UpdateReport
from pock_server.rollouts.states import Report, UpdateState
from pock_server.rollouts.tables import RolloutDeviceRecord
from pock_server.services import Services

_LIFE = timedelta(minutes=10)
"""Of an offer; the device asks for another one then."""
_STATES = {
    Report.WAITING: UpdateState.OFFERED,
    Report.INSTALLING: UpdateState.INSTALLING,
    Report.STARTED: UpdateState.INSTALLING,
    Report.FAILED: UpdateState.FAILED,
    Report.ROLLED_BACK: UpdateState.ROLLED_BACK,
    Report.UNSUPPORTED: UpdateState.UNSUPPORTED,
}


def sealed_offer(services: Services, agent: AgentCaller) -> UpdateOffer | None:
    """What is offered to the device, signed for it, or None."""
    now = services.clock.now()
    with services.database.read() as session:
        found = offer_of(session, agent.device_id)
        if found is None:
            return None
        member, rollout, release = found
        signer = services.keys.current(session).signer
    said = {
        "type": "pock-agent-offer",
        "format": 1,
        "device_id": agent.device_id,
        "rollout_id": rollout.id,
        "action": "revert" if member.reverting else "install",
        "release": document_of(release).model_dump(),
        "check_in_seconds": rollout.check_in_seconds,
        "healthy_seconds": rollout.healthy_seconds,
        "issued_at": now.isoformat(),
        "expires_at": (now + _LIFE).isoformat(),
    }
    payload = json.dumps(said, sort_keys=True, separators=(",", ":")).encode()
    signature = signer.sign(b"pock-agent-offer\n" + payload)
    return UpdateOffer(payload=base64.b64encode(payload).decode(), key_id=signer.key_id, signature=signature)


def note_report(unit: Unit, agent: AgentCaller, report: UpdateReport, now: datetime) -> UpdateState:
    """Note what a device tells of an offer; raises a 404 `Problem` for a rollout that it is not part of. Repeats and
    what comes late are harmless."""
    devices = RolloutDevices(unit.session, agent.workspace_id)
    member = devices.of(report.rollout_id, agent.device_id, lock=True)
    if member is None:
        raise Problem(Failure.NOT_FOUND, f"This device is no part of a rollout {report.rollout_id}.")
    version = Rollouts(unit.session, agent.workspace_id).require(report.rollout_id).version
    if member.reverting:
        _note_return(member, report, version)
    elif report.state is Report.STARTED and report.version != version:
        return UpdateState(member.state)
    elif _is_news(member, report):
        member.state = _STATES[report.state]
        member.offering = report.state in (Report.WAITING, Report.INSTALLING) and member.offering
        member.checked_in_at = now if report.state is Report.STARTED else None
        member.detail = report.detail
    member.changed_at = now
    unit.announce(DUTIES_TOPIC)
    return UpdateState(member.state)


def _is_news(member: RolloutDeviceRecord, report: UpdateReport) -> bool:
    """Whether it can be so: who waits or installs was offered something; who runs it or gave it up may tell late."""
    if report.state in (Report.WAITING, Report.INSTALLING):
        return member.offering
    return member.state != UpdateState.PENDING or report.state is Report.STARTED


def _note_return(member: RolloutDeviceRecord, report: UpdateReport, version: str) -> None:
    """A device that was told to return says that it did, or cannot."""
    if report.state is Report.ROLLED_BACK:
        member.state, member.detail = UpdateState.ROLLED_BACK, report.detail
    elif report.state in (Report.FAILED, Report.UNSUPPORTED):
        member.detail = report.detail
    else:
        return
    member.reverting = member.offering = False
