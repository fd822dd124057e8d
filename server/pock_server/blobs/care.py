"""What becomes of blobs that are damaged or missing: nobody gets them, nothing builds on them, new bytes heal them."""

import logging

from sqlalchemy import select, update

from pock_server.blobs.faults import BlobFault, MissingBlob
from pock_server.blobs.tables import BlobUseRecord, QuarantineRecord
from pock_server.builds.tables import BuildRecord
from pock_server.db.insert import insert_if_absent
from pock_server.observing.facts import Counted
from pock_server.services import Services

_log = logging.getLogger(__name__)


def quarantine(services: Services, fault: BlobFault) -> None:
    """Serve the blob no more, and have builds whose artifact needs it made anew when they are requested again."""
    now = services.clock.now()
    with services.database.write() as unit:
        reason = fault.reason[:200]
        row = insert_if_absent(unit.session, QuarantineRecord, digest=fault.digest, reason=reason, found_at=now)
        if row is not None:
            unit.happened(Counted("blob_faults", "missing" if isinstance(fault, MissingBlob) else "damaged"))
        owners = select(BlobUseRecord.owner_id).where(BlobUseRecord.digest == fault.digest)
        unit.session.execute(
            update(BuildRecord)
            .where(BuildRecord.id.in_(owners), BuildRecord.retired_at.is_(None))
            .values(retired_at=now)
            .execution_options(synchronize_session=False)
        )
    if row is not None:
        _log.error("%s: it is quarantined until its bytes are uploaded or built again", fault)
