"""Who works on a run: leases with fencing numbers, so that a device that lost its lease cannot write any more."""

from datetime import datetime, timedelta

from pock_server.db.unit import Unit
from pock_server.devices.repository import Devices
from pock_server.devices.states import DeviceStatus
from pock_server.devices.tables import DeviceRecord
from pock_server.http.problems import Failure, Problem
from pock_server.hub import DUTIES_TOPIC
from pock_server.observing.context import tell
from pock_server.policies.pauses import forget_pause, note_pause
from pock_server.runs.failures import LOST_DEVICE, TIMEOUT, UNTRUSTED_WORK
from pock_server.runs.lifecycle import HELD, OPEN, RUN_LIFECYCLE
from pock_server.runs.making import try_again
from pock_server.runs.repository import Runs
from pock_server.runs.schemas import LeaseOut, PausedIn, RunState
from pock_server.runs.tables import RunRecord
from pock_server.settings import Settings
from pock_server.webhooks.service import announce
from pock_server.webhooks.tables import Event

# The device enforces the deadline itself; only one that does not is overruled, this much later.
_GRACE = timedelta(minutes=2)
_OFFERS = 1000
"""So often a run is leased at most; a device asks again every 30 s on average."""


def lease_next(unit: Unit, device: DeviceRecord, settings: Settings, now: datetime) -> RunRecord | None:
    """Lease the next run to the device, whose row is locked. A run that it holds is leased anew: it forgot about it."""
    runs = Runs(unit.session, device.workspace_id)
    held = runs.held_by(device.id)
    if held is not None:
        take_back(unit, held, settings, now, "the device started anew")
    run = runs.next_queued(device.id, now)
    if run is None:
        return None
    RUN_LIFECYCLE.move(
        unit,
        run,
        RunState.LEASED,
        now,
        attempt=run.attempt + 1,
        fence=run.fence + 1,
        lease_expires_at=now + timedelta(seconds=settings.lease_seconds),
        next_seq=0,
        progress=None,
    )
    tell(adopt=run.request_id, run_id=run.id, build_id=run.build_id)
    device.current_run_id = run.id
    device.work_counter += 1
    return run


def lock_run(unit: Unit, workspace_id: str, run_id: str) -> RunRecord:
    """The run, locked, and its device with it; raises a 404 `Problem` if the workspace has none.

    Everybody who changes both locks the device first: else two who wait for each other would be broken up.
    """
    runs = Runs(unit.session, workspace_id)
    Devices(unit.session, workspace_id).require(runs.require(run_id).device_id, lock=True)
    return runs.require(run_id, lock=True)


def require_lease(unit: Unit, device_id: str, workspace_id: str, run_id: str, fence: int) -> RunRecord:
    """The device's run, locked, and the device with it, if `fence` is that of the run's present lease; raises a 404 or
    409 `Problem` otherwise."""
    run = lock_run(unit, workspace_id, run_id)
    if run.device_id != device_id:
        raise Problem(Failure.NOT_FOUND, f"There is no run {run_id}.")
    tell(adopt=run.request_id, build_id=run.build_id)
    if run.fence != fence or run.state == RunState.QUEUED:
        raise Problem(Failure.LEASE_LOST, f"The lease with fence {fence} is lost; stop and ask for work again.")
    return run


def renew(unit: Unit, run: RunRecord, settings: Settings, now: datetime, paused: PausedIn | None = None) -> LeaseOut:
    """Extend the lease; the first renewal starts the run. A run that is over must be stopped."""
    if run.state not in HELD:
        return LeaseOut(expires_at=run.lease_expires_at or now, cancel=True)
    seconds = settings.lease_seconds if paused is None else settings.paused_lease_seconds
    expires_at = now + timedelta(seconds=seconds)
    if run.state == RunState.LEASED:
        ends_at = now + timedelta(seconds=run.deadline_seconds) + _GRACE
        RUN_LIFECYCLE.move(unit, run, RunState.RUNNING, now, started_at=now, run_ends_at=ends_at)
    note_pause(unit, run, paused, settings, now)
    run.lease_expires_at = expires_at
    return LeaseOut(expires_at=expires_at, cancel=False)


def take_back(unit: Unit, run: RunRecord, settings: Settings, now: datetime, reason: str) -> None:
    """End a lease from the server's side: the run waits again, or fails after its last attempt."""
    if run.attempt >= settings.max_attempts:
        fail(unit, run, LOST_DEVICE, f"Given up after {run.attempt} attempts: {reason}.", now)
        return
    _back_to_queue(unit, run, now, reason, attempt=run.attempt)


def decline(unit: Unit, run: RunRecord, now: datetime, reason: str) -> None:
    """The device has not begun, and cannot at the moment: the run waits again, and the attempt does not count. It waits
    no longer than its queue deadline, and is not offered for ever. Nothing happens if it is over.

    Raises a 409 `Problem` if the device has begun.
    """
    if run.state not in HELD:
        return
    if run.state == RunState.RUNNING:
        raise Problem(Failure.STATE_CONFLICT, "This run has begun; report its result.")
    if run.fence >= _OFFERS:
        fail(unit, run, UNTRUSTED_WORK, f"The device gave it back {run.fence} times: {reason}", now)
        return
    _back_to_queue(unit, run, now, f"declined: {reason}", attempt=run.attempt - 1)


def _back_to_queue(unit: Unit, run: RunRecord, now: datetime, reason: str, attempt: int) -> None:
    """The run waits again, after `attempt` attempts that count; nothing of the lease is left; the device is free."""
    left = {"lease_expires_at": None, "run_ends_at": None, "started_at": None, "progress": None}
    RUN_LIFECYCLE.move(unit, run, RunState.QUEUED, now, reason, attempt=attempt, **left)
    clear_device(unit, run)


def fail(unit: Unit, run: RunRecord, code: int, detail: str, now: datetime) -> None:
    """End the run as failed, and make its next try if its policy has one left."""
    failure = {"code": code, "detail": detail}
    RUN_LIFECYCLE.move(unit, run, RunState.FAILED, now, failure=failure, finished_at=now)
    told = ("build_id", "device_id", "device_name", "target", "entry", "part_of", "failure")
    data = {"run_id": run.id, **{name: getattr(run, name) for name in told}}
    announce(unit, run.workspace_id, Event.RUN_FAILED, data, now)
    clear_device(unit, run)
    try_again(unit, run, now)


def clear_device(unit: Unit, run: RunRecord) -> None:
    """The device is free of this run, and may take another."""
    forget_pause(run)
    device = Devices(unit.session, run.workspace_id).require(run.device_id)
    if device.current_run_id == run.id:
        device.current_run_id = None
    unit.announce(f"device:{run.device_id}")
    if run.part_of is not None:
        unit.announce(DUTIES_TOPIC)


def release_device(unit: Unit, device: DeviceRecord, now: datetime) -> None:
    """Fail everything that a device which will never come back was to do; its row is locked or changed already."""
    for run in Runs(unit.session, device.workspace_id).of_device(device.id, OPEN):
        fail(unit, run, LOST_DEVICE, f"Device {device.name} was {device.status}.", now)


def sweep(unit: Unit, run: RunRecord, settings: Settings, now: datetime) -> None:
    """Deal with one overdue run."""
    device = Devices(unit.session, run.workspace_id).require(run.device_id)
    if run.state == RunState.QUEUED:
        fail(unit, run, TIMEOUT, "No device took this run before its queue deadline.", now)
    elif run.run_ends_at is not None and run.run_ends_at < now:
        fail(unit, run, TIMEOUT, f"The device did not finish within {run.deadline_seconds:.0f} s.", now)
    elif device.status != DeviceStatus.ACTIVE:
        fail(unit, run, LOST_DEVICE, f"Device {device.name} is {device.status}.", now)
    else:
        take_back(unit, run, settings, now, "the device stopped renewing its lease")
