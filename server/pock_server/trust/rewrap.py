"""Another wrapping key, while the service runs.

The file holds the new key and the old one meanwhile, and either opens what is in the database. So a process that is
killed at any point leaves a service that works, and whoever does it again ends it.
"""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from pock_server.audit.service import WHOLE_SERVICE, Action, Subject, record
from pock_server.db.locks import Lock, hold
from pock_server.db.unit import Unit
from pock_server.trust.tables import SigningKeyRecord
from pock_server.trust.wrapping import WrappingKey
from pock_server.webhooks.secrets import check_all, rewrap_all


def check_opens(session: Session, wrapping: WrappingKey, newest_only: bool = False) -> int:
    """How many private keys lie in the database; raises CannotUnwrap for the first key, or webhook's secret, that the
    file does not open."""
    rows = _wrapped(session)
    for row in rows:
        wrapping.unwrap(row.wrapped or "", row.key_id, newest_only)
    check_all(session, wrapping, newest_only)
    return len(rows)


def rewrap(unit: Unit, wrapping: WrappingKey, now: datetime) -> int:
    """Put every private key, and every secret of a webhook, under the newest wrapping key, all or none; how many keys.
    Raises CannotUnwrap."""
    hold(unit.session, Lock.MAKE_KEYS)
    rows = _wrapped(unit.session)
    for row in rows:
        row.wrapped = wrapping.wrap(wrapping.unwrap(row.wrapped or "", row.key_id))
    rewrap_all(unit.session, wrapping)
    subject = Subject(wrapping.path.name, WHOLE_SERVICE)
    record(unit, Action.WRAPPING_KEY_ROTATE, subject, f"wrapping key of {len(rows)} signing keys", now)
    return len(rows)


def forget_old(unit: Unit, wrapping: WrappingKey) -> None:
    """Leave the newest key alone in the file; raises CannotUnwrap if an old one is still needed, and OSError."""
    hold(unit.session, Lock.MAKE_KEYS)
    check_opens(unit.session, wrapping, newest_only=True)
    wrapping.keep_newest()


def _wrapped(session: Session) -> list[SigningKeyRecord]:
    return list(session.scalars(select(SigningKeyRecord).where(SigningKeyRecord.wrapped.is_not(None))))
