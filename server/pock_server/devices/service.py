"""Lets devices in, shows them, and sends them away."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from pock_server.audit.service import Action, changed, made, record
from pock_server.auth import secrets
from pock_server.builds.tables import BuildRecord
from pock_server.clock import new_id
from pock_server.db.unit import Unit
from pock_server.devices.facts import note_facts
from pock_server.devices.labels import change_labels, labels_of
from pock_server.devices.presence import state_of
from pock_server.devices.repository import Devices, EnrolmentTokens, find_token_anywhere
from pock_server.devices.resting import rest_of
from pock_server.devices.schemas import DeviceChange, DeviceOut, EnrolIn, TokenCreated, TokenIn
from pock_server.devices.sessions import end_session
from pock_server.devices.states import DeviceStatus
from pock_server.devices.tables import DeviceRecord, EnrolmentTokenRecord
from pock_server.http.problems import Failure, Problem
from pock_server.observing.facts import Counted
from pock_server.runs.tables import RunRecord


def create_token(unit: Unit, workspace_id: str, order: TokenIn, now: datetime) -> TokenCreated:
    """Make an enrolment token; the answer holds its only copy."""
    credential = secrets.generate(secrets.Kind.ENROLMENT_TOKEN, new_id(now))
    row = EnrolmentTokenRecord(
        id=credential.row_id,
        workspace_id=workspace_id,
        created_at=now,
        name=order.name,
        pool=order.pool,
        labels=order.labels or None,
        secret_hash=credential.hash,
        expires_at=now + timedelta(seconds=order.ttl_seconds),
        used_at=None,
    )
    EnrolmentTokens(unit.session, workspace_id).add(row)
    changes = made(pool=row.pool, labels=row.labels, expires_at=row.expires_at.isoformat())
    record(unit, Action.ENROLMENT_TOKEN_CREATE, row, row.name or "", now, changes)
    return TokenCreated(id=row.id, token=credential.text, expires_at=row.expires_at)


def enrol(unit: Unit, order: EnrolIn, key_id: str, now: datetime) -> DeviceRecord:
    """Turn a token into a device that trusts this signing key; a 401 `Problem` says whether the token is unknown, used
    or expired."""
    token = _take_token(unit, order.token, now)
    device = DeviceRecord(
        id=new_id(now),
        workspace_id=token.workspace_id,
        created_at=now,
        name=token.name or order.name,
        pool=token.pool,
        status=DeviceStatus.ACTIVE,
        public_key=order.public_key,
        facts={},
        last_seen_at=now,
        signing_key_id=key_id,
        session_counter=0,
        work_counter=0,
        token_id=token.id,
    )
    note_facts(device, order.facts)
    unit.happened(Counted("devices", "enrolled"))
    Devices(unit.session, token.workspace_id).add(device)
    labels = change_labels(unit.session, device, token.labels or {}) or None
    told = made(pool=device.pool, labels=labels, token_id=token.id)
    record(unit, Action.DEVICE_ENROL, device, device.name, now, told)
    return device


def _take_token(unit: Unit, text: str, now: datetime) -> EnrolmentTokenRecord:
    credential = secrets.parse(text, secrets.Kind.ENROLMENT_TOKEN)
    token = find_token_anywhere(unit.session, credential.row_id) if credential else None
    if credential is None or token is None or not credential.matches(token.secret_hash):
        raise Problem(Failure.TOKEN_UNKNOWN, "This enrolment token is not known here; make one and copy all of it.")
    if token.used_at is None and token.expires_at <= now:
        detail = f"This enrolment token expired at {token.expires_at.isoformat()}; make a new one."
        raise Problem(Failure.TOKEN_EXPIRED, detail)
    if not EnrolmentTokens(unit.session, token.workspace_id).use(token.id, now):
        raise Problem(Failure.TOKEN_USED, "This enrolment token was used already; make a new one for each device.")
    return token


def change_device(unit: Unit, devices: Devices, device_id: str, order: DeviceChange, now: datetime) -> DeviceRecord:
    """Change what `order` names; runs keep the name that the device had when they were asked for."""
    device = devices.require(device_id, lock=True)
    labels = labels_of(unit.session, [device])[device.id]
    before = {"name": device.name, "pool": device.pool, "labels": labels}
    device.name = order.name or device.name
    device.pool = order.pool or device.pool
    after = {"name": device.name, "pool": device.pool, "labels": change_labels(unit.session, device, order.labels)}
    changes = changed(before, after)
    if changes:
        record(unit, Action.DEVICE_CHANGE, device, device.name, now, changes)
    return device


def revoke(unit: Unit, devices: Devices, device_id: str, now: datetime) -> DeviceRecord:
    """Send a device away; its sessions end at once. Revoking it again changes nothing."""
    device = devices.require(device_id, lock=True)
    before, device.status = device.status, DeviceStatus.REVOKED
    device.current_run_id = None
    end_session(device)
    if before != DeviceStatus.REVOKED:
        changes = changed({"status": before}, {"status": str(device.status)})
        record(unit, Action.DEVICE_REVOKE, device, device.name, now, changes)
    unit.announce(f"device:{device.id}")
    return device


def show(session: Session, rows: Sequence[DeviceRecord], since: datetime, *, facts: bool = True) -> list[DeviceOut]:
    """Devices as the API shows them, with their facts or without; `since` is what `heard_since` says."""
    labels, jobs = labels_of(session, rows), _jobs_of(session, rows)
    return [_describe(row, labels[row.id], jobs.get(row.current_run_id), since, facts) for row in rows]


def _jobs_of(session: Session, rows: Iterable[DeviceRecord]) -> dict[str | None, str]:
    """The names of the builds that these devices run now, by the ids of the runs."""
    ids = [row.current_run_id for row in rows if row.current_run_id is not None]
    if not ids:
        return {}
    named = select(RunRecord.id, BuildRecord.name).join(BuildRecord, BuildRecord.id == RunRecord.build_id)
    return {row.id: row.name for row in session.execute(named.where(RunRecord.id.in_(ids)))}


def _describe(row: DeviceRecord, labels: dict[str, str], job: str | None, since: datetime, facts: bool) -> DeviceOut:
    return DeviceOut(
        id=row.id,
        name=row.name,
        pool=row.pool,
        labels=labels,
        target=row.target,
        state=state_of(row, since),
        last_seen_at=row.last_seen_at,
        facts=row.facts if facts else {},
        temperature_c=row.temperature_c,
        throttled=row.throttled,
        memory_bytes=row.memory_bytes,
        agent_version=row.agent_version,
        current_run_id=row.current_run_id,
        current_run_name=job,
        resting=rest_of(row),
        created_at=row.created_at,
    )
