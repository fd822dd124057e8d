"""Reserves a key before the work and keeps the answer after it (IETF draft httpapi-idempotency-key-header)."""

import hashlib
import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, delete, or_, update

from pock_server.auth.service import Caller
from pock_server.db.alive import is_alive
from pock_server.db.insert import insert_if_absent
from pock_server.db.unit import Unit
from pock_server.http.problems import Failure, Problem
from pock_server.idempotency.tables import IdempotencyRecord
from pock_server.services import Services

REPLAY_FOR = timedelta(hours=24)
# A process that died between reservation and answer leaves its reservation behind. It is void once the database knows
# that the process is dead, and after this time where it does not: a host may vanish without closing its connections.
ABANDONED_AFTER = timedelta(minutes=5)
_log = logging.getLogger(__name__)
_IN_FLIGHT = "The first request with this Idempotency-Key is still being served; repeat it later."


@dataclass(frozen=True)
class StoredAnswer:
    """What the first request with a key was answered."""

    status: int
    body: dict[str, Any]


@dataclass(frozen=True)
class Reservation:
    """The right to serve the first request with a key."""

    services: Services
    caller: Caller
    route: str
    key: str
    reserved_at: datetime

    @classmethod
    def of(cls, services: Services, caller: Caller, route: str, key: str) -> "Reservation":
        """One to be taken now. Raises a `Problem` for what is no key."""
        if not 1 <= len(key) <= 200 or not key.isprintable():
            raise Problem(Failure.INVALID, "Idempotency-Key must have 1 to 200 printable characters.")
        return cls(services, caller, route, key, services.clock.now())

    def take(self, body: bytes) -> StoredAnswer | None:
        """Reserve the key; or the stored answer, if there is one. Raises a `Problem` if the key is in use otherwise.

        Where the database is gone meanwhile it is not known whether the key is reserved: then release it."""
        own = self.services.hub.name
        body_hash = hashlib.sha256(body).hexdigest()
        with self.services.database.write() as unit:
            mine = {"principal_id": self.caller.key_id, "route": self.route, "key": self.key}
            unit.session.execute(delete(IdempotencyRecord).filter_by(**mine).where(_void(self.reserved_at)))
            made = {"created_at": self.reserved_at, "workspace_id": self.caller.workspace_id}
            fresh = {**made, "body_hash": body_hash, "holder": own}
            if insert_if_absent(unit.session, IdempotencyRecord, **mine, **fresh) is not None:
                return None
            row = unit.session.get(IdempotencyRecord, (self.caller.key_id, self.route, self.key))
            if row is not None and row.status is None and not is_alive(unit.session, row.holder, own):
                _log.info("process %s died while it served a request, which another one serves now", row.holder)
                left = {"holder": row.holder, "status": None, "created_at": row.created_at}
                unit.session.execute(delete(IdempotencyRecord).filter_by(**mine, **left))
                unit.session.expunge(row)
                if insert_if_absent(unit.session, IdempotencyRecord, **mine, **fresh) is not None:
                    return None
                row = None  # a third one was faster
            if row is None:
                raise Problem(Failure.KEY_IN_FLIGHT, _IN_FLIGHT, {"Retry-After": "1"})
            if row.body_hash != body_hash:
                raise Problem(Failure.KEY_REUSED, "This Idempotency-Key was used with another body; use a new key.")
            if row.status is None or row.answer is None:
                raise Problem(Failure.KEY_IN_FLIGHT, _IN_FLIGHT, {"Retry-After": "1"})
            return StoredAnswer(row.status, row.answer)

    def keep(self, unit: Unit, status: int, body: dict[str, Any]) -> None:
        """Store the answer for repeats, in the transaction that does the work.

        Raises a 409 `Problem`, which undoes the work, if the reservation is void: the request took so long that another
        one may have begun with its key.
        """
        kept = unit.session.execute(
            update(IdempotencyRecord)
            .where(*self._mine(), IdempotencyRecord.status.is_(None))
            .values(status=status, answer=body)
            .returning(IdempotencyRecord.key)
        ).first()
        if kept is None:
            raise Problem(Failure.KEY_IN_FLIGHT, "This request took too long, and was repeated meanwhile; repeat it.")

    def release(self) -> None:
        """Forget the key of a request that did nothing, so that it may be repeated."""
        with self.services.database.write() as unit:
            unit.session.execute(delete(IdempotencyRecord).where(*self._mine(), IdempotencyRecord.status.is_(None)))

    def _mine(self) -> tuple[ColumnElement[bool], ...]:
        return (
            IdempotencyRecord.principal_id == self.caller.key_id,
            IdempotencyRecord.route == self.route,
            IdempotencyRecord.key == self.key,
            IdempotencyRecord.created_at == self.reserved_at,
            IdempotencyRecord.holder == self.services.hub.name,
        )


def _void(now: datetime) -> ColumnElement[bool]:
    """Of a remembered request: it is too old to be repeated, or was left behind by a process that died."""
    age = IdempotencyRecord.created_at
    return or_(age < now - REPLAY_FOR, IdempotencyRecord.status.is_(None) & (age < now - ABANDONED_AFTER))


def forget_old(unit: Unit, now: datetime) -> None:
    """Delete what nobody may repeat any more; the sweeper's."""
    unit.session.execute(delete(IdempotencyRecord).where(_void(now)))
