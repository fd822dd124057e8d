"""The keys that sign work: whether the wrapping key opens them."""

from collections.abc import Iterator

from sqlalchemy import inspect
from sqlalchemy.orm import Session

from pock_server.db.engine import make_engine
from pock_server.doctor.findings import Finding, fail, ok, warn
from pock_server.settings import Settings
from pock_server.trust.rewrap import check_opens
from pock_server.trust.wrapping import CannotUnwrap, WrappingKey


def check(settings: Settings) -> Iterator[Finding]:
    """Nothing where there is no database yet, of which its own check tells."""
    if not settings.database_url and not (settings.data_dir / "pock.sqlite3").exists():
        return
    engine = make_engine(settings)
    try:
        with Session(engine) as session:
            if inspect(session.connection()).has_table("signing_keys"):
                yield from _wrapping(session, WrappingKey(settings.effective_wrapping_key_file))
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
