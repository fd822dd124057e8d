"""Collects what nobody needs: claims that nothing uses, objects that nobody claims, parts that no upload knows.

Safe beside everything else. What is younger than the grace period stays, because bytes are stored before the row that
claims them. What is claimed stays, because a claim is removed only as long as no model, dataset, build or run uses it
(a foreign key says so) and nobody wanted it for the grace period. And an object is removed under the same lock under
which claims are made; who then finds that its object went a moment before stores it again (`finishing`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, delete, exists, func, select
from sqlalchemy.orm import Session

from pock_server.blobs.store import StoredObject
from pock_server.blobs.tables import BlobRecord, BlobUseRecord, QuarantineRecord, UploadPartRecord, UploadRecord
from pock_server.db.locks import hold_digest
from pock_server.services import Services

_BATCH = 500


@dataclass
class Collected:
    """What was removed, or would be."""

    claims: int = 0
    blobs: int = 0
    parts: int = 0
    bytes: int = 0


def collect(services: Services, dry_run: bool = False) -> Collected:
    """Remove what nobody needs and nobody wanted for the grace period; with `dry_run`, only count it."""
    before = services.clock.now() - timedelta(hours=services.settings.grace_hours)
    found = Collected()
    found.claims = _count_claims(services, before) if dry_run else _drop_claims(services, before)
    for batch in services.blobs.list_objects("sha256"):
        _collect_blobs(services, [item for item in batch if item.modified_at < before], before, dry_run, found)
    for batch in services.blobs.list_objects("uploads"):
        _collect_parts(services, [item for item in batch if item.modified_at < before], dry_run, found)
    if not dry_run:
        _forget_old(services, before)
        services.blobs.drop_leftovers(before)
    return found


def _unused(before: datetime) -> ColumnElement[bool]:
    used = exists().where(
        BlobUseRecord.workspace_id == BlobRecord.workspace_id, BlobUseRecord.digest == BlobRecord.digest
    )
    return (BlobRecord.used_at < before) & ~used


def _count_claims(services: Services, before: datetime) -> int:
    with services.database.read() as session:
        return session.scalar(select(func.count()).select_from(BlobRecord).where(_unused(before))) or 0


def _drop_claims(services: Services, before: datetime) -> int:
    count = 0
    while True:
        with services.database.read() as session:
            keys = session.execute(
                select(BlobRecord.workspace_id, BlobRecord.digest).where(_unused(before)).limit(_BATCH)
            ).all()
        for workspace_id, digest in keys:
            with services.database.write() as unit:
                mine = (BlobRecord.workspace_id == workspace_id, BlobRecord.digest == digest, _unused(before))
                dropped = unit.session.execute(delete(BlobRecord).where(*mine).returning(BlobRecord.digest))
                count += len(dropped.all())
        if len(keys) < _BATCH:
            return count


def _collect_blobs(
    services: Services, old: list[StoredObject], before: datetime, dry_run: bool, found: Collected
) -> None:
    digests = {item.key.rpartition("/")[2]: item for item in old}
    with services.database.read() as session:
        wanted = _claimed(session, digests, before, dry_run)
    for digest, item in digests.items():
        if digest in wanted or not (dry_run or _remove(services, digest, item.key, before)):
            continue
        found.blobs += 1
        found.bytes += item.size


def _claimed(session: Session, digests: Iterable[str], before: datetime, dry_run: bool) -> set[str]:
    """Those that somebody claims; of a dry run, whose claim would not go first."""
    query = select(BlobRecord.digest).where(BlobRecord.digest.in_(list(digests)))
    return set(session.scalars(query.where(~_unused(before)) if dry_run else query))


def _remove(services: Services, digest: str, key: str, before: datetime) -> bool:
    """Delete the object, unless somebody claims it or stored it anew by now."""
    with services.database.write() as unit:
        hold_digest(unit.session, digest)
        if unit.session.scalars(select(BlobRecord.digest).where(BlobRecord.digest == digest).limit(1)).first():
            return False
        modified_at = services.blobs.modified_at(key)
        if modified_at is None or modified_at >= before:
            return False
        services.blobs.delete_objects([key])
        return True


def _collect_parts(services: Services, old: list[StoredObject], dry_run: bool, found: Collected) -> None:
    keys = {item.key: item for item in old}
    with services.database.read() as session:
        known = set(
            session.scalars(select(UploadPartRecord.object_key).where(UploadPartRecord.object_key.in_(list(keys))))
        )
    for key in keys.keys() - known:
        found.parts += 1
        found.bytes += keys[key].size
        if not dry_run:
            services.blobs.delete_objects([key])


def _forget_old(services: Services, before: datetime) -> None:
    """Uploads that were completed long ago, and faults of blobs that nobody claims any more."""
    claimed = exists().where(BlobRecord.digest == QuarantineRecord.digest)
    with services.database.write() as unit:
        unit.session.execute(
            delete(UploadRecord).where(UploadRecord.complete.is_(True), UploadRecord.created_at < before)
        )
        unit.session.execute(delete(QuarantineRecord).where(~claimed))
