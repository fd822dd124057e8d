"""Queries on blobs and uploads."""

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import ColumnElement, Update, delete, func, or_, select, update
from sqlalchemy.orm import Session

from pock_server.blobs.tables import BlobRecord, BlobUseRecord, QuarantineRecord, UploadPartRecord, UploadRecord
from pock_server.db.insert import insert_if_absent
from pock_server.db.locks import hold_digest
from pock_server.db.repository import Repository
from pock_server.http.problems import Failure, Problem

MAX_PARTS = 10_000
"""Of an upload: 80 GB in parts of 8 MiB."""


def damaged(digest: str) -> Problem:
    """What is answered instead of bytes that are not what they were."""
    detail = f"The stored bytes of blob {digest} are damaged or lost; upload them again, or have the build made again."
    return Problem(Failure.BLOB_DAMAGED, detail)


def lift(session: Session, digest: str) -> bool:
    """The blob's bytes are right again; False if it was not quarantined."""
    lifted = delete(QuarantineRecord).where(QuarantineRecord.digest == digest).returning(QuarantineRecord.digest)
    return session.execute(lifted).first() is not None


def count_quarantined(session: Session) -> int:
    """Blobs that nobody gets."""
    return session.scalar(select(func.count()).select_from(QuarantineRecord)) or 0


class Blobs:
    """The blobs of one workspace."""

    def __init__(self, session: Session, workspace_id: str) -> None:
        self.session = session
        self.workspace_id = workspace_id

    def find(self, digest: str) -> BlobRecord | None:
        """The workspace's blob with this digest."""
        return self.session.get(BlobRecord, (self.workspace_id, digest))

    def require(self, digest: str) -> BlobRecord:
        """The workspace's blob with this digest; a `Problem` if it has none (404) or the bytes are damaged (410)."""
        row = self.find(digest)
        if row is None:
            raise Problem(Failure.NOT_FOUND, f"There is no blob {digest}; upload it first (POST /v1/uploads).")
        if self.session.get(QuarantineRecord, digest) is not None:
            raise damaged(digest)
        return row

    def touch(self, digest: str, now: datetime) -> BlobRecord | None:
        """The workspace's undamaged blob, wanted at this moment: if nothing uses it, it lasts for the grace period."""
        mine = (BlobRecord.workspace_id == self.workspace_id, BlobRecord.digest == digest)
        row = self.session.scalars(update(BlobRecord).where(*mine).values(used_at=now).returning(BlobRecord)).first()
        return None if self.session.get(QuarantineRecord, digest) else row

    def take(self, digest: str, now: datetime) -> BlobRecord:
        """As `require`, and nobody removes the blob until the end of the transaction, which is about to use it."""
        return self.touch(digest, now) or self.require(digest)

    def remember(self, digest: str, size: int, now: datetime) -> None:
        """Note that the workspace possesses the blob, whose bytes have just been stored."""
        hold_digest(self.session, digest)
        if self.touch(digest, now) is None:
            claim = {"workspace_id": self.workspace_id, "digest": digest, "size": size}
            insert_if_absent(self.session, BlobRecord, **claim, created_at=now, used_at=now, checked_at=now)
        lift(self.session, digest)

    def use(self, owner_id: str, digests: Iterable[str]) -> None:
        """Keep blobs, which the workspace has, as long as a model, dataset, build or run needs them."""
        for digest in sorted(set(digests)):
            insert_if_absent(
                self.session, BlobUseRecord, workspace_id=self.workspace_id, owner_id=owner_id, digest=digest
            )

    def release(self, owner_id: str, now: datetime) -> None:
        """The owner is gone: what nothing else uses lasts for the grace period."""
        mine = (BlobUseRecord.workspace_id == self.workspace_id, BlobUseRecord.owner_id == owner_id)
        for digest in sorted(self.session.scalars(delete(BlobUseRecord).where(*mine).returning(BlobUseRecord.digest))):
            self.touch(digest, now)


class Uploads(Repository[UploadRecord]):
    """The uploads of one workspace."""

    row_class = UploadRecord
    noun = "upload"

    def _mine(self, upload_id: str) -> tuple[ColumnElement[bool], ...]:
        return UploadRecord.workspace_id == self.workspace_id, UploadRecord.id == upload_id

    def advance(self, upload_id: str, start: int, size: int, object_key: str) -> bool:
        """Append a part if the upload still ends at `start` and may have one more; False if not."""
        advanced = self._change(
            update(UploadRecord)
            .where(*self._mine(upload_id), UploadRecord.received == start, UploadRecord.complete.is_(False))
            .where(UploadRecord.parts < MAX_PARTS)
            .values(received=start + size, parts=UploadRecord.parts + 1)
        )
        if not advanced:
            return False
        self.session.add(UploadPartRecord(upload_id=upload_id, start=start, size=size, object_key=object_key))
        return True

    def require_room(self, upload_id: str) -> None:
        """Raise a 413 `Problem` if the upload has as many parts as it may."""
        if self.require(upload_id).parts >= MAX_PARTS:
            detail = f"This upload came in more than {MAX_PARTS} pieces; start a new one and send larger ones."
            raise Problem(Failure.TOO_LARGE, detail)

    def begin_finish(self, upload_id: str, token: str, by: str, now: datetime, until: datetime) -> bool:
        """Become the one who finishes an upload that has all its bytes; False if another one does, or did."""
        free = or_(UploadRecord.finishing_until.is_(None), UploadRecord.finishing_until < now)
        return self._change(
            update(UploadRecord)
            .where(*self._mine(upload_id), UploadRecord.complete.is_(False), free)
            .where(UploadRecord.received == UploadRecord.size)
            .values(finisher=token, finishing_until=until, finishing_by=by)
        )

    def hold(self, upload_id: str, token: str, until: datetime) -> bool:
        """Stay the one who finishes it; False if another one does now."""
        mine = (*self._mine(upload_id), UploadRecord.finisher == token, UploadRecord.complete.is_(False))
        return self._change(update(UploadRecord).where(*mine).values(finishing_until=until))

    def let_go(self, upload_id: str, token: str) -> None:
        """No longer be the one who finishes it."""
        mine = (*self._mine(upload_id), UploadRecord.finisher == token)
        self._change(update(UploadRecord).where(*mine).values(finisher=None, finishing_until=None, finishing_by=None))

    def drop_stale(self, upload_id: str, now: datetime) -> list[str] | None:
        """Delete an upload that nobody finishes at this moment; the keys of its parts, None if it is there still."""
        free = or_(UploadRecord.finishing_until.is_(None), UploadRecord.finishing_until < now)
        held = self.session.scalars(
            select(UploadRecord).where(*self._mine(upload_id), UploadRecord.complete.is_(False), free).with_for_update()
        ).one_or_none()
        if held is None:
            return None
        keys = self.part_keys(held)
        self.drop_parts(held)
        self.session.delete(held)
        return keys

    def _change(self, statement: Update) -> bool:
        return self.session.execute(statement.returning(UploadRecord.id)).first() is not None

    def part_keys(self, upload: UploadRecord) -> list[str]:
        """Keys of the parts, in order."""
        query = select(UploadPartRecord.object_key).where(UploadPartRecord.upload_id == upload.id)
        return list(self.session.scalars(query.order_by(UploadPartRecord.start)))

    def drop_parts(self, upload: UploadRecord) -> None:
        """Forget the parts."""
        query = select(UploadPartRecord).where(UploadPartRecord.upload_id == upload.id)
        for part in self.session.scalars(query):
            self.session.delete(part)
        self.session.flush()


def stale_uploads(session: Session, before: datetime) -> list[UploadRecord]:
    """Unfinished uploads of all workspaces begun before this moment, for the sweeper."""
    query = select(UploadRecord).where(UploadRecord.complete.is_(False), UploadRecord.created_at < before)
    return list(session.scalars(query))
