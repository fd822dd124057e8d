"""Begins rollouts, and does with them what people want."""

import math
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select

from pock_server.agent_releases.repository import AgentReleases
from pock_server.agent_releases.tables import AgentReleaseRecord
from pock_server.audit.service import Action, changed, made, record
from pock_server.clock import new_id
from pock_server.db.unit import Unit
from pock_server.devices.features import Feature, knows
from pock_server.devices.repository import Devices
from pock_server.devices.selectors.conditions import conditions
from pock_server.devices.selectors.grammar import BadSelector, parse
from pock_server.devices.states import DeviceStatus
from pock_server.devices.tables import DeviceRecord
from pock_server.http.problems import Failure, Problem
from pock_server.hub import DUTIES_TOPIC
from pock_server.observing.context import request_id, traceparent
from pock_server.rollouts.lifecycle import ROLLOUT_LIFECYCLE
from pock_server.rollouts.repository import RolloutDevices, Rollouts
from pock_server.rollouts.schemas import RolloutIn, RolloutOut
from pock_server.rollouts.states import RolloutState, UpdateState
from pock_server.rollouts.tables import RolloutDeviceRecord, RolloutRecord

MAX_DEVICES = 20_000
"""Of one rollout."""
_NO_STAGE = -1


def create_rollout(unit: Unit, workspace_id: str, order: RolloutIn, since: datetime, now: datetime) -> RolloutRecord:
    """Begin a rollout to the devices that the selector chooses now; `since` is what `heard_since` says.

    Raises a 404 `Problem` for an unknown release, a 422 one for a selector that is none or chooses nothing, a 409 one
    for a release that has expired, and where another rollout is about to change one of the devices.
    """
    release = AgentReleases(unit.session, workspace_id).require(order.release_id, lock=True)
    if release.expires_at <= now:
        detail = f"Release {release.version} expired at {release.expires_at.isoformat()}; sign it anew."
        raise Problem(Failure.STATE_CONFLICT, detail)
    devices = _chosen(unit, workspace_id, order.on, since)
    busy = RolloutDevices(unit.session, workspace_id).busy([device.id for device in devices])
    if busy is not None:
        detail = f"Rollout {busy.rollout_id} is about to change device {busy.device_name}: wait for it, or cancel it."
        raise Problem(Failure.STATE_CONFLICT, detail)
    row = RolloutRecord(
        id=new_id(now),
        workspace_id=workspace_id,
        created_at=now,
        state=RolloutState.RUNNING,
        attempt=0,
        started_at=now,
        request_id=request_id(),
        traceparent=traceparent(),
        release_id=release.id,
        version=release.version,
        selector=order.on,
        canary=order.canary,
        stages=order.stages,
        stage=0,
        healthy_seconds=order.healthy_seconds,
        check_in_seconds=order.check_in_seconds,
        max_failed=order.max_failed,
        reason="",
    )
    Rollouts(unit.session, workspace_id).add(row)
    unit.session.add_all(_members(row, release, devices, since, now))
    told = made(version=row.version, on=row.selector, devices=len(devices))
    record(unit, Action.ROLLOUT_CREATE, row, row.version, now, told)
    unit.announce(DUTIES_TOPIC)
    return row


def _chosen(unit: Unit, workspace_id: str, selector: str, since: datetime) -> list[DeviceRecord]:
    try:
        terms = tuple(conditions(parse(selector), since))
    except BadSelector as error:
        raise Problem(Failure.INVALID, f"body.on: {error}.") from None
    active = DeviceRecord.status == DeviceStatus.ACTIVE
    query = Devices(unit.session, workspace_id).select().where(active, *terms).limit(MAX_DEVICES + 1)
    found = list(unit.session.scalars(query.order_by(DeviceRecord.created_at, DeviceRecord.id)))
    if not found:
        raise Problem(Failure.INVALID, f"body.on: no active device matches {selector[:200]!r}.")
    if len(found) > MAX_DEVICES:
        raise Problem(Failure.INVALID, f"body.on: chooses more than {MAX_DEVICES} devices; make several rollouts.")
    return found


def _members(
    rollout: RolloutRecord, release: AgentReleaseRecord, devices: Sequence[DeviceRecord], since: datetime, now: datetime
) -> list[RolloutDeviceRecord]:
    """The devices with their stages: those that are there go first, those that cannot take part have none."""
    able = [device for device in devices if _inability(device, release) is None]
    able.sort(key=lambda device: device.last_seen_at is None or device.last_seen_at < since)
    stage_of = {device.id: _stage(place, len(able), rollout) for place, device in enumerate(able)}
    rows = []
    for device in devices:
        inability = _inability(device, release)
        state = UpdateState.PENDING
        if inability is not None:
            state = UpdateState.HEALTHY if device.agent_version == release.version else UpdateState.UNSUPPORTED
        rows.append(
            RolloutDeviceRecord(
                id=new_id(now),
                workspace_id=rollout.workspace_id,
                created_at=now,
                rollout_id=rollout.id,
                device_id=device.id,
                device_name=device.name,
                stage=stage_of.get(device.id, _NO_STAGE),
                state=state,
                detail=inability or "",
                version_before=device.agent_version,
                offering=False,
                reverting=False,
                changed_at=now,
            )
        )
    return rows


def _inability(device: DeviceRecord, release: AgentReleaseRecord) -> str | None:
    """Why the device takes no part, or None."""
    if device.agent_version == release.version:
        return "it had this version before"
    if not knows(device, Feature.UPDATES):
        return f"agent {device.agent_version or 'of an unknown version'} does not replace itself; update it by hand"
    if device.arch is not None and f"linux-{device.arch}" not in release.files:
        return f"the release has no file for linux-{device.arch}"
    return None


def _stage(place: int, count: int, rollout: RolloutRecord) -> int:
    if place < rollout.canary:
        return 0
    return next(n for n, percent in enumerate(rollout.stages, 1) if place < math.ceil(count * percent / 100))


def pause(unit: Unit, rollout: RolloutRecord, now: datetime) -> None:
    """Offer nothing more until it is resumed; what is being installed goes on."""
    _move(unit, rollout, RolloutState.PAUSED, Action.ROLLOUT_PAUSE, now)
    withdraw(unit, rollout, now)


def resume(unit: Unit, rollout: RolloutRecord, now: datetime) -> None:
    """Go on. Devices that failed stay so, and count no more."""
    allowance = _allowance(unit, rollout)
    _move(unit, rollout, RolloutState.RUNNING, Action.ROLLOUT_RESUME, now)
    rollout.reason, rollout.max_failed = "", allowance


def _allowance(unit: Unit, rollout: RolloutRecord) -> int:
    """As many failures more as were allowed from the beginning, after it stopped for too many."""
    if rollout.state != RolloutState.STOPPED:
        return rollout.max_failed
    counts = Rollouts(unit.session, rollout.workspace_id).counts([rollout.id])[rollout.id]
    return rollout.max_failed + counts.get(UpdateState.FAILED, 0) + counts.get(UpdateState.ROLLED_BACK, 0)


def cancel(unit: Unit, rollout: RolloutRecord, now: datetime) -> None:
    """End it; devices keep what they have."""
    _move(unit, rollout, RolloutState.CANCELLED, Action.ROLLOUT_CANCEL, now)
    rollout.finished_at = now
    withdraw(unit, rollout, now)
    mine = [RolloutDeviceRecord.reverting | RolloutDeviceRecord.offering]
    RolloutDevices(unit.session, rollout.workspace_id).change(
        rollout.id, mine, {"reverting": False, "offering": False}, now
    )


def roll_back(unit: Unit, rollout: RolloutRecord, now: datetime) -> None:
    """Have who took the release return to the version before; a 409 `Problem` if the release was signed as final."""
    release = unit.session.scalars(select(AgentReleaseRecord).where(AgentReleaseRecord.id == rollout.release_id)).one()
    if not release.revert:
        detail = (
            f"Release {release.version} was signed as final: release a newer version, or an old one with --downgrade."
        )
        raise Problem(Failure.STATE_CONFLICT, detail)
    _move(unit, rollout, RolloutState.REVERTING, Action.ROLLOUT_ROLL_BACK, now)
    rollout.finished_at = None
    withdraw(unit, rollout, now)
    took = [
        RolloutDeviceRecord.state.in_((UpdateState.HEALTHY, UpdateState.INSTALLING)),
        RolloutDeviceRecord.stage != _NO_STAGE,
    ]
    devices = RolloutDevices(unit.session, rollout.workspace_id)
    ring(unit, devices.change(rollout.id, took, {"reverting": True, "offering": True}, now))


def withdraw(unit: Unit, rollout: RolloutRecord, now: datetime) -> None:
    """Offer nothing to anybody: who has not begun waits for its stage again."""
    devices = RolloutDevices(unit.session, rollout.workspace_id)
    waiting = [RolloutDeviceRecord.state == UpdateState.OFFERED]
    devices.change(rollout.id, waiting, {"state": UpdateState.PENDING, "offering": False}, now)


def ring(unit: Unit, devices: Sequence[str]) -> None:
    """Have these devices, which may be waiting for work, look for an offer."""
    unit.announce(*(f"device:{device}" for device in devices))


def _move(unit: Unit, rollout: RolloutRecord, to: RolloutState, action: Action, now: datetime) -> None:
    before = rollout.state
    ROLLOUT_LIFECYCLE.move(unit, rollout, to, now)
    record(unit, action, rollout, rollout.version, now, changed({"state": before}, {"state": str(to)}))
    unit.announce(DUTIES_TOPIC)


def show(rollouts: Rollouts, rows: Sequence[RolloutRecord]) -> list[RolloutOut]:
    """Rollouts as the API shows them."""
    counts = rollouts.counts([row.id for row in rows])
    return [
        RolloutOut(
            id=row.id,
            state=RolloutState(row.state),
            release_id=row.release_id,
            version=row.version,
            on=row.selector,
            canary=row.canary,
            stages=row.stages,
            stage=row.stage,
            healthy_seconds=row.healthy_seconds,
            check_in_seconds=row.check_in_seconds,
            max_failed=row.max_failed,
            reason=row.reason,
            devices=counts[row.id],
            created_at=row.created_at,
            started_at=row.started_at,
            finished_at=row.finished_at,
        )
        for row in rows
    ]
