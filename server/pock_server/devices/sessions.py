"""Sessions of devices: opened by a signature over a counter that only grows, so that a copied key is noticed."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import update

from pock_server.actor import Actor, ActorKind, Source
from pock_server.audit.service import Action, changed, record
from pock_server.auth import secrets
from pock_server.clock import new_id
from pock_server.db.unit import Database, Unit
from pock_server.devices.repository import find_device_anywhere, find_session_anywhere
from pock_server.devices.schemas import SessionIn
from pock_server.devices.states import DeviceStatus
from pock_server.devices.tables import DeviceRecord
from pock_server.http.problems import Failure, Problem
from pock_server.observing.facts import Counted
from pock_server.signing import verify

# How far a device's clock may be from ours when it asks for a session.
_FRESH = timedelta(minutes=10)

_CHALLENGE = {"WWW-Authenticate": "Bearer"}


@dataclass(frozen=True)
class AgentCaller:
    """The device behind a request."""

    workspace_id: str
    device_id: str
    session_id: str
    trust_version: int | None


@dataclass(frozen=True)
class OpenedSession:
    """A new session's token and end."""

    token: str
    expires_at: datetime


def open_session(database: Database, order: SessionIn, now: datetime, life: timedelta, source: Source) -> OpenedSession:
    """Open a session and end the device's earlier one.

    Raises a 401 `Problem` for a wrong signature, a 425 one for a request that is not fresh or was served before, and a
    409 one for a counter that was used before in another, newer request: then two holders of one key exist, and the
    device is quarantined. Signature and freshness come first, or whoever has overheard a request, or knows an id, could
    have the device quarantined.
    """
    issued_at = _moment(order.issued_at)
    _check_signature(database, order)
    if abs(now - issued_at) > _FRESH:
        detail = f"The request was signed at {issued_at.isoformat()}, and it is {now.isoformat()}: set the clock."
        raise Problem(Failure.SESSION_STALE, detail, {"Retry-After": "30"})
    by = Actor(ActorKind.DEVICE, "a device", device_id=order.device_id, source=source)
    with database.write(by) as unit:
        device = find_device_anywhere(unit.session, order.device_id, lock=True)
        if device is None:
            raise _unknown()
        refuse_inactive(device)
        opened = _grant(unit, device, order.counter, issued_at, now, life)
        if opened is not None:
            return opened
        if device.session_issued_at is not None and issued_at <= device.session_issued_at:
            raise Problem(Failure.SESSION_STALE, "This request, or a newer one, was served before: sign another one.")
        _quarantine(unit, device, now)
    raise _quarantined()


def _check_signature(database: Database, order: SessionIn) -> None:
    """Whoever cannot sign holds up nobody: no row is locked before."""
    with database.read() as session:
        device = find_device_anywhere(session, order.device_id)
    message = f"pock-session\n{order.device_id}\n{order.counter}\n{order.issued_at}".encode()
    if device is None or not verify(device.public_key, order.signature, message):
        raise _unknown()


def _unknown() -> Problem:
    detail = "The signature is not that of an enrolled device; enrol again (pock-agent enroll URL TOKEN)."
    return Problem(Failure.SIGNATURE_INVALID, detail)


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Problem(Failure.INVALID, "body.issued_at: is not a moment as RFC 3339 writes it.") from None


def _grant(
    unit: Unit, device: DeviceRecord, counter: int, issued_at: datetime, now: datetime, life: timedelta
) -> OpenedSession | None:
    """The session, or None if the counter does not grow: compared and set in one statement, so of two requests that
    race with one counter one gets none."""
    credential = secrets.generate(secrets.Kind.DEVICE_SESSION, new_id(now))
    granted = unit.session.execute(
        update(DeviceRecord)
        .where(DeviceRecord.id == device.id, DeviceRecord.session_counter < counter)
        .values(
            session_counter=counter,
            session_issued_at=issued_at,
            session_id=credential.row_id,
            session_hash=credential.hash,
            session_expires_at=now + life,
            last_seen_at=now,
        )
        .returning(DeviceRecord.id)
        .execution_options(synchronize_session=False)
    ).first()
    unit.session.refresh(device)
    if granted:
        unit.happened(Counted("devices", "session"))
    return OpenedSession(credential.text, now + life) if granted else None


def _quarantine(unit: Unit, device: DeviceRecord, now: datetime) -> None:
    before, device.status = device.status, DeviceStatus.QUARANTINED
    changes = changed({"status": before}, {"status": str(device.status)})
    record(unit, Action.DEVICE_QUARANTINE, device, device.name, now, changes)
    unit.happened(Counted("devices", "quarantined", f"device {device.id} is quarantined: a session counter came twice"))
    end_session(device)
    unit.announce(f"device:{device.id}")


def end_session(device: DeviceRecord) -> None:
    """Make the device's session token worthless."""
    device.session_id = device.session_hash = device.session_expires_at = None


def authenticate_session(database: Database, credential_text: str | None, now: datetime) -> AgentCaller:
    """The device that the session token stands for; raises a 401 `Problem` otherwise."""
    credential = secrets.parse(credential_text, secrets.Kind.DEVICE_SESSION) if credential_text else None
    with database.read() as session:
        device = find_session_anywhere(session, credential.row_id) if credential else None
    if credential is None:
        raise unknown_session()
    if device is None or not credential.matches(device.session_hash or ""):
        raise Problem(
            Failure.SESSION_EXPIRED, "This session was replaced or never existed; open a new one.", _CHALLENGE
        )
    refuse_inactive(device)
    if device.session_expires_at is None or device.session_expires_at <= now:
        raise Problem(Failure.SESSION_EXPIRED, "This session has expired; open a new one.", _CHALLENGE)
    return AgentCaller(device.workspace_id, device.id, credential.row_id, device.trust_version)


def unknown_session() -> Problem:
    """What is answered to who sends no session token."""
    detail = "Send a session token of this service as `Authorization: Bearer ps_<id>_<secret>`."
    return Problem(Failure.KEY_UNKNOWN, detail, _CHALLENGE)


def refuse_inactive(device: DeviceRecord) -> None:
    """Raise a `Problem` if the device was quarantined or revoked."""
    if device.status == DeviceStatus.QUARANTINED:
        raise _quarantined()
    if device.status == DeviceStatus.REVOKED:
        raise Problem(Failure.DEVICE_REVOKED, "This device was revoked; enrol it again with a new token.")


def _quarantined() -> Problem:
    detail = (
        "This device is quarantined: a session counter was used twice, so two machines may hold its key. "
        "Revoke it and enrol it again."
    )
    return Problem(Failure.DEVICE_QUARANTINED, detail)
