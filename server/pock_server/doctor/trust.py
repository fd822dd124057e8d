"""What somebody has to see to in time: the wrapping key, the end of the trust document, backups."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from sqlalchemy import inspect
from sqlalchemy.orm import Session

from pock_server.backup.history import last_backup
from pock_server.db.engine import make_engine, missing_file
from pock_server.doctor.findings import Finding, fail, ok, warn
from pock_server.settings import Settings
from pock_server.trust.chain import RENEW_DAYS, latest
from pock_server.trust.rewrap import check_opens
from pock_server.trust.wrapping import CannotUnwrap, WrappingKey

_BACKUP_DAYS = 2


def check(settings: Settings) -> Iterator[Finding]:
    """Nothing where there is no database yet, of which its own check tells."""
    if missing_file(settings) is not None:
        return
    engine = make_engine(settings)
    try:
        with Session(engine) as session:
            if inspect(session.connection()).has_table("signing_keys"):
                yield from _wrapping(session, WrappingKey(settings.effective_wrapping_key_file))
                yield from _trust(session)
            if inspect(session.connection()).has_table("audit_entries"):
                yield from _backup(session)
    finally:
        engine.dispose()


def _wrapping(session: Session, wrapping: WrappingKey) -> Iterator[Finding]:
    item = "wrapping key"
    try:
        found = check_opens(session, wrapping)
    except CannotUnwrap as error:
        yield fail(item, f"{error}; put the right file back, or see `pock-server revoke-devices`.")
        return
    if found == 0:
        yield ok(item, "there are no signing keys yet")
    elif wrapping.count() > 1:
        says = f"{wrapping.path} holds {wrapping.count()} keys; `pock-server rotate-wrapping-key` ends the change."
        yield warn(item, says)
    else:
        yield ok(item, f"{wrapping.path} opens {found} signing keys")


def _trust(session: Session) -> Iterator[Finding]:
    item, trust = "trust document", latest(session)
    if trust is None:
        return
    left = trust.expires_at - datetime.now(UTC)
    says = f"version {trust.version} ends in {left.days} days"
    if left < timedelta(0):
        yield fail(item, f"version {trust.version} has ended, and devices take no work: `pock-server rotate-keys`.")
    elif left < timedelta(days=RENEW_DAYS - 1):  # whoever has the root key has renewed it by then
        yield warn(item, f"{says}, and devices take no work afterwards: sign the next one (`pock-server rotate-keys`).")
    else:
        yield ok(item, says)


def _backup(session: Session) -> Iterator[Finding]:
    item, made_at = "backup", last_backup(session)
    if made_at is None:
        yield warn(item, "none was made with `pock-server backup`; make one every day, and keep it elsewhere.")
        return
    age = datetime.now(UTC) - made_at
    says = f"the last one is {age.days} days old" if age.days else "the last one is less than a day old"
    yield (ok if age < timedelta(days=_BACKUP_DAYS) else warn)(item, says)
