"""Reserves a key before the work and keeps the answer after it (IETF draft httpapi-idempotency-key-header)."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, delete, update

from pock_server.auth.service import Caller
from pock_server.db.unit import Unit
from pock_server.http.problems import Failure, Problem
from pock_server.idempotency.tables import IdempotencyRecord
from pock_server.services import Services

REPLAY_FOR = timedelta(hours=24)
# A process that died between reservation and answer leaves its reservation behind; after this time it is void.
ABANDONED_AFTER = timedelta(minutes=5)


@dataclass(frozen=True)
class StoredAnswer:
    """What the first request with a key was answered."""

    status: int
    body: dict[str, Any]


@dataclass(frozen=True)
class Reservation:
    """The right to serve the first request with a key."""

    services: Services
    principal_id: str
    route: str
    key: str
    reserved_at: datetime

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
            IdempotencyRecord.principal_id == self.principal_id,
            IdempotencyRecord.route == self.route,
            IdempotencyRecord.key == self.key,
            IdempotencyRecord.created_at == self.reserved_at,
        )


def reserve(services: Services, caller: Caller, route: str, key: str, body: bytes) -> Reservation | StoredAnswer:
    """Reserve the key, or give the stored answer; raises a `Problem` if the key is in use otherwise."""
    if not 1 <= len(key) <= 200:
        raise Problem(Failure.INVALID, "Idempotency-Key must have 1 to 200 characters.")
    now = services.clock.now()
    body_hash = hashlib.sha256(body).hexdigest()
    with services.database.write() as unit:
        unit.session.execute(delete(IdempotencyRecord).where(IdempotencyRecord.created_at < now - REPLAY_FOR))
        row = unit.session.get(IdempotencyRecord, (caller.key_id, route, key))
        if row is not None and row.status is None and row.created_at < now - ABANDONED_AFTER:
            unit.session.delete(row)
            unit.session.flush()
            row = None
        if row is None:
            unit.session.add(
                IdempotencyRecord(
                    workspace_id=caller.workspace_id,
                    principal_id=caller.key_id,
                    route=route,
                    key=key,
                    body_hash=body_hash,
                    created_at=now,
                )
            )
            return Reservation(services, caller.key_id, route, key, now)
        if row.body_hash != body_hash:
            raise Problem(Failure.KEY_REUSED, "This Idempotency-Key was used with another body; use a new key.")
        if row.status is None or row.answer is None:
            detail = "The first request with this Idempotency-Key is still being served; repeat it later."
            raise Problem(Failure.KEY_IN_FLIGHT, detail, {"Retry-After": "1"})
        return StoredAnswer(row.status, row.answer)
