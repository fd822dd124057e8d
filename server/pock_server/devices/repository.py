"""Queries on devices and enrolment tokens."""

from datetime import datetime

from sqlalchemy import bindparam, func, select, update
from sqlalchemy.orm import Session, defer

from pock_server.db.repository import Repository
from pock_server.devices.states import DeviceStatus
from pock_server.devices.tables import DeviceRecord, EnrolmentTokenRecord

_OF_SESSION = (
    select(DeviceRecord).options(defer(DeviceRecord.facts)).where(DeviceRecord.session_id == bindparam("session_id"))
)


class Devices(Repository[DeviceRecord]):
    """The devices of one workspace."""

    row_class = DeviceRecord
    noun = "device"


class EnrolmentTokens(Repository[EnrolmentTokenRecord]):
    """The enrolment tokens of one workspace."""

    row_class = EnrolmentTokenRecord
    noun = "enrolment token"

    def use(self, token_id: str, now: datetime) -> bool:
        """Mark the token as used; False if it was used before, be it a moment ago by another request."""
        unused = update(EnrolmentTokenRecord).where(
            EnrolmentTokenRecord.workspace_id == self.workspace_id,
            EnrolmentTokenRecord.id == token_id,
            EnrolmentTokenRecord.used_at.is_(None),
        )
        return self.session.execute(unused.values(used_at=now).returning(EnrolmentTokenRecord.id)).first() is not None


def find_token_anywhere(session: Session, token_id: str) -> EnrolmentTokenRecord | None:
    """The token with this id; its workspace is what enrolment finds out."""
    return session.get(EnrolmentTokenRecord, token_id)


def find_device_anywhere(session: Session, device_id: str, *, lock: bool = False) -> DeviceRecord | None:
    """The device with this id, locked if asked for; its workspace is what opening a session finds out."""
    return session.get(DeviceRecord, device_id, with_for_update={"key_share": True} if lock else None)


def find_session_anywhere(session: Session, session_id: str) -> DeviceRecord | None:
    """The device with this session; its workspace is what authentication finds out. Every call of an agent asks this:
    the facts are not read, and the query is made once."""
    return session.scalars(_OF_SESSION, {"session_id": session_id}).one_or_none()


def count_active(session: Session) -> int:
    """Active devices of all workspaces: they share the service's capacity for heartbeats."""
    query = select(func.count()).select_from(DeviceRecord).where(DeviceRecord.status == DeviceStatus.ACTIVE)
    return session.scalar(query) or 0
