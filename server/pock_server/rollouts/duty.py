"""Looks how the devices of a rollout stand, and takes the next step: who has lasted, who is offered the release next,
whether to stop. All of a step is one transaction, and taking it twice changes nothing."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from pock_server.db.unit import Unit
from pock_server.devices.presence import heard_since
from pock_server.devices.states import DeviceStatus
from pock_server.devices.tables import DeviceRecord
from pock_server.rollouts.lifecycle import ROLLOUT_LIFECYCLE
from pock_server.rollouts.repository import RolloutDevices, Rollouts, unfinished
from pock_server.rollouts.service import ring, withdraw
from pock_server.rollouts.states import BAD, OPEN, RolloutState, UpdateState
from pock_server.rollouts.tables import RolloutDeviceRecord as Member
from pock_server.rollouts.tables import RolloutRecord
from pock_server.services import Services

_CHECK_INS = 6
"""A device that is heard of no more after it began has this many times the time for its check-in: it starts the new
version up to three times, and then the one before."""
_LEAST_SECONDS = 600
"""It has this long at least: the service may have been away, too."""


def due(session: Session, now: datetime) -> Iterable[tuple[str, str]]:
    """Rollouts that go on."""
    return unfinished(session)


def do(services: Services, workspace_id: str, rollout_id: str) -> None:
    """Take the next step of one rollout."""
    now = services.clock.now()
    since = heard_since(now, services.fleet.heartbeat_seconds())
    with services.database.write() as unit:
        rollout = Rollouts(unit.session, workspace_id).require(rollout_id, lock=True)
        devices = RolloutDevices(unit.session, workspace_id)
        if rollout.state == RolloutState.RUNNING:
            _note(devices, rollout, since, now)
            _go_on(unit, devices, rollout, since, now)
        elif rollout.state == RolloutState.REVERTING:
            _note_gone(devices, rollout, now)
            if devices.count(Member.rollout_id == rollout.id, Member.reverting.is_(True)) == 0:
                ROLLOUT_LIFECYCLE.move(unit, rollout, RolloutState.REVERTED, now, finished_at=now)


def _note(devices: RolloutDevices, rollout: RolloutRecord, since: datetime, now: datetime) -> None:
    """Devices that have lasted, that are heard of no more, that were sent away."""
    lasted = now - timedelta(seconds=rollout.healthy_seconds)
    silence = max(_CHECK_INS * rollout.check_in_seconds, _LEAST_SECONDS) + rollout.healthy_seconds
    there = select(DeviceRecord.id).where(
        DeviceRecord.last_seen_at >= since, DeviceRecord.agent_version == rollout.version
    )
    installing = Member.state == UpdateState.INSTALLING
    healthy = [installing, Member.checked_in_at <= lasted, Member.device_id.in_(there)]
    values = {"state": UpdateState.HEALTHY, "offering": False, "detail": ""}
    devices.change(rollout.id, healthy, values, now)
    lost = [installing, Member.changed_at < now - timedelta(seconds=silence)]
    values = {"state": UpdateState.FAILED, "offering": False, "detail": "it was not heard of again"}
    devices.change(rollout.id, lost, values, now)
    _note_gone(devices, rollout, now)


def _note_gone(devices: RolloutDevices, rollout: RolloutRecord, now: datetime) -> None:
    gone = Member.device_id.in_(select(DeviceRecord.id).where(DeviceRecord.status != DeviceStatus.ACTIVE))
    values = {"state": UpdateState.UNSUPPORTED, "offering": False, "detail": "the device was sent away"}
    devices.change(rollout.id, [gone, Member.state.in_(OPEN)], values, now)
    devices.change(rollout.id, [gone, Member.reverting.is_(True)], {"reverting": False, "offering": False}, now)


def _go_on(unit: Unit, devices: RolloutDevices, rollout: RolloutRecord, since: datetime, now: datetime) -> None:
    """Stop, end, or offer the release to the next devices."""
    standings = devices.standings(rollout.id, since)
    bad = sum(count for _, state, _, count in standings if state in BAD)
    if bad > rollout.max_failed:
        _stop(unit, rollout, f"{bad} of the devices failed, and {rollout.max_failed} may", now)
        return
    if not any(state in OPEN for _, state, _, _ in standings):
        ROLLOUT_LIFECYCLE.move(unit, rollout, RolloutState.SUCCEEDED, now, finished_at=now)
        return
    stage = rollout.stage
    states: Counter[str] = Counter()
    held = False
    for at, state, there, count in standings:
        if at == stage:
            states[state] += count
        if 0 <= at <= stage:
            held |= state == UpdateState.INSTALLING or (there and state in OPEN)
    if not held and stage < len(rollout.stages) and (not states or _is_done(states)):
        if stage == 0 and states and not states[UpdateState.HEALTHY]:
            _stop(unit, rollout, "no device of the canary runs it", now)
            return
        rollout.stage = stage = stage + 1
    pending = [Member.state == UpdateState.PENDING, Member.stage >= 0, Member.stage <= stage]
    ring(unit, devices.change(rollout.id, pending, {"state": UpdateState.OFFERED, "offering": True}, now))


def _is_done(states: Counter[str]) -> bool:
    """Whether a stage, none of whose devices is there and busy, tells enough: some have lasted, or none is left."""
    return states[UpdateState.HEALTHY] > 0 or not any(states[state] for state in OPEN)


def _stop(unit: Unit, rollout: RolloutRecord, reason: str, now: datetime) -> None:
    ROLLOUT_LIFECYCLE.move(unit, rollout, RolloutState.STOPPED, now, reason=reason)
    rollout.reason = reason
    withdraw(unit, rollout, now)
