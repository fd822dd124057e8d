"""Rollouts over HTTP, for people."""

from collections.abc import Callable
from datetime import datetime

from fastapi import APIRouter

from pock_server.auth.service import Caller
from pock_server.db.unit import Unit
from pock_server.dependencies import DeviceAdmin, Reader, ServicesDep
from pock_server.devices.presence import heard_since
from pock_server.devices.repository import Devices
from pock_server.devices.resting import rests_of
from pock_server.devices.schemas import RestOut
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS
from pock_server.idempotency.header import Once
from pock_server.quotas.service import Quota, check
from pock_server.rollouts import service
from pock_server.rollouts.repository import RolloutDevices, Rollouts
from pock_server.rollouts.schemas import RolloutDeviceOut, RolloutDevicePage, RolloutIn, RolloutOut, RolloutPage
from pock_server.rollouts.states import RolloutState, UpdateState
from pock_server.rollouts.tables import RolloutDeviceRecord, RolloutRecord
from pock_server.services import Services

router = APIRouter(prefix="/rollouts", tags=["rollouts"], responses=PROBLEMS)


@router.post("", status_code=201)
def create_rollout(body: RolloutIn, caller: DeviceAdmin, services: ServicesDep, once: Once) -> RolloutOut:
    """Bring a release of the agent to devices."""
    now = services.clock.now()
    since = heard_since(now, services.fleet.heartbeat_seconds())
    with services.database.write(caller.actor) as unit:
        row = service.create_rollout(unit, caller.workspace_id, body, since, now)
        check(unit, services.settings, caller.workspace_id, now, Quota.ROLLOUTS)
        (shown,) = service.show(Rollouts(unit.session, caller.workspace_id), [row])
        return once(unit, shown, 201)


@router.get("")
def list_rollouts(caller: Reader, services: ServicesDep, page: PageQuery) -> RolloutPage:
    """List rollouts."""
    with services.database.read() as session:
        rollouts = Rollouts(session, caller.workspace_id)
        found = rollouts.page(page)
        return RolloutPage(items=service.show(rollouts, found.rows), next_cursor=found.next_cursor)


@router.get("/{rollout_id}")
def get_rollout(rollout_id: Id, caller: Reader, services: ServicesDep) -> RolloutOut:
    """One rollout."""
    with services.database.read() as session:
        rollouts = Rollouts(session, caller.workspace_id)
        (shown,) = service.show(rollouts, [rollouts.require(rollout_id)])
        return shown


@router.get("/{rollout_id}/devices")
def list_rollout_devices(
    rollout_id: Id, caller: Reader, services: ServicesDep, page: PageQuery, state: UpdateState | None = None
) -> RolloutDevicePage:
    """How each device of a rollout stands."""
    with services.database.read() as session:
        Rollouts(session, caller.workspace_id).require(rollout_id)
        filters = [RolloutDeviceRecord.rollout_id == rollout_id]
        if state is not None:
            filters.append(RolloutDeviceRecord.state == state)
        found = RolloutDevices(session, caller.workspace_id).page(page, *filters)
        asked = [row.device_id for row in found.rows if row.offering]
        resting = rests_of(Devices(session, caller.workspace_id), asked)
        items = [_device(row, resting.get(row.device_id)) for row in found.rows]
        return RolloutDevicePage(items=items, next_cursor=found.next_cursor)


@router.post("/{rollout_id}/pause")
def pause_rollout(rollout_id: Id, caller: DeviceAdmin, services: ServicesDep) -> RolloutOut:
    """Offer nothing more until it is resumed."""
    return _changed(services, caller, rollout_id, RolloutState.PAUSED, service.pause)


@router.post("/{rollout_id}/resume")
def resume_rollout(rollout_id: Id, caller: DeviceAdmin, services: ServicesDep) -> RolloutOut:
    """Go on with a rollout that was paused, or that stopped."""
    return _changed(services, caller, rollout_id, RolloutState.RUNNING, service.resume)


@router.post("/{rollout_id}/cancel")
def cancel_rollout(rollout_id: Id, caller: DeviceAdmin, services: ServicesDep) -> RolloutOut:
    """End a rollout; devices keep what they have."""
    return _changed(services, caller, rollout_id, RolloutState.CANCELLED, service.cancel)


@router.post("/{rollout_id}/roll-back")
def roll_back_rollout(rollout_id: Id, caller: DeviceAdmin, services: ServicesDep) -> RolloutOut:
    """Have the devices that took the release return to the version before."""
    return _changed(services, caller, rollout_id, RolloutState.REVERTING, service.roll_back)


def _changed(
    services: Services,
    caller: Caller,
    rollout_id: str,
    to: RolloutState,
    change: Callable[[Unit, RolloutRecord, datetime], None],
) -> RolloutOut:
    """Repeating is harmless."""
    with services.database.write(caller.actor) as unit:
        rollouts = Rollouts(unit.session, caller.workspace_id)
        row = rollouts.require(rollout_id, lock=True)
        if row.state != to:
            change(unit, row, services.clock.now())
        (shown,) = service.show(rollouts, [row])
        return shown


def _device(row: RolloutDeviceRecord, resting: RestOut | None) -> RolloutDeviceOut:
    return RolloutDeviceOut(
        device_id=row.device_id,
        device_name=row.device_name,
        stage=row.stage,
        state=UpdateState(row.state),
        detail=row.detail,
        version_before=row.version_before,
        checked_in_at=row.checked_in_at,
        changed_at=row.changed_at,
        resting=resting,
    )
