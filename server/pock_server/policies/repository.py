"""Queries on policies."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, or_

from pock_server.db.repository import Repository, locked
from pock_server.devices.tables import DeviceRecord
from pock_server.policies.tables import PolicyRecord


@dataclass(frozen=True)
class Effective:
    """The rules that a device has to follow; None where none are set."""

    pool: dict[str, Any] | None
    device: dict[str, Any] | None


class Policies(Repository[PolicyRecord]):
    """The policies of one workspace."""

    row_class = PolicyRecord
    noun = "policy"

    def of_device(self, device_id: str) -> PolicyRecord | None:
        """The device's own."""
        return self.session.scalars(self.select().where(PolicyRecord.device_id == device_id)).one_or_none()

    def of_pool(self, pool: str, *, lock: bool = False) -> PolicyRecord | None:
        """The pool's; `lock` as `find` has it."""
        query = self.select().where(PolicyRecord.pool == pool)
        return self.session.scalars(locked(query, PolicyRecord) if lock else query).one_or_none()

    def effective(self, device: DeviceRecord) -> Effective:
        """Both."""
        its_own, pools = PolicyRecord.device_id == device.id, PolicyRecord.pool == device.pool
        rows = self.session.scalars(self.select().where(or_(its_own, and_(PolicyRecord.device_id.is_(None), pools))))
        found = {"pool" if row.device_id is None else "device": row.rules for row in rows}
        return Effective(found.get("pool"), found.get("device"))
