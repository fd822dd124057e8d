"""Queries on blobs and uploads."""

from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from pock_server.blobs.tables import BlobRecord, UploadPartRecord, UploadRecord
from pock_server.db.repository import Repository
from pock_server.http.problems import Failure, Problem


class Blobs:
    """The blobs of one workspace."""

    def __init__(self, session: Session, workspace_id: str) -> None:
        self.session = session
        self.workspace_id = workspace_id

    def find(self, digest: str) -> BlobRecord | None:
        """The workspace's blob with this digest."""
        return self.session.get(BlobRecord, (self.workspace_id, digest))

    def require(self, digest: str) -> BlobRecord:
        """The workspace's blob with this digest; raises a 404 `Problem` if it has none."""
        row = self.find(digest)
        if row is None:
            raise Problem(Failure.NOT_FOUND, f"There is no blob {digest}; upload it first (POST /v1/uploads).")
        return row

    def remember(self, digest: str, size: int, now: datetime) -> bool:
        """Note that the workspace possesses the blob; False if it did before."""
        if self.find(digest) is not None:
            return False
        self.session.add(BlobRecord(workspace_id=self.workspace_id, digest=digest, size=size, created_at=now))
        self.session.flush()
        return True


class Uploads(Repository[UploadRecord]):
    """The uploads of one workspace."""

    row_class = UploadRecord
    noun = "upload"

    def advance(self, upload_id: str, start: int, size: int, object_key: str) -> bool:
        """Append a part if the upload still ends at `start`; False if another request was faster."""
        changed = self.session.execute(
            update(UploadRecord)
            .where(UploadRecord.workspace_id == self.workspace_id, UploadRecord.id == upload_id)
            .where(UploadRecord.received == start, UploadRecord.complete.is_(False))
            .values(received=start + size)
            .returning(UploadRecord.id)
        ).first()
        if changed is None:
            return False
        self.session.add(UploadPartRecord(upload_id=upload_id, start=start, size=size, object_key=object_key))
        return True

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
