"""What a wrong setting, or a server that a setting names, does to a command: one sentence instead of a trace.

Whatever is not known here is a fault of ours, and keeps its trace.
"""

import re

from alembic.util.exc import CommandError
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from pock_server.blobs.faults import StoreFailed
from pock_server.observing.logs import clean, visible
from pock_server.settings import UnusableSetting
from pock_server.trust.start import KeyNotTrusted
from pock_server.trust.wrapping import CannotUnwrap

_CHARACTERS = 600
_REACH = "is it up, and are host and port of POCK_DATABASE_URL right?"
_DATABASE = (
    (r"password authentication failed|no password supplied", "correct user and password in POCK_DATABASE_URL"),
    (
        r'database "[^"]*" does not exist',
        "make it with `createdb`, or correct the name at the end of POCK_DATABASE_URL",
    ),
    (r'role "[^"]*" does not exist', "make it with `createuser`, or correct the user in POCK_DATABASE_URL"),
    (r"no pg_hba.conf entry", "let this host in there, or correct POCK_DATABASE_URL"),
    (r"permission denied for", "give the user of POCK_DATABASE_URL a database of its own, or the right to make tables"),
    (r"too many clients|connection slots", "lower POCK_DATABASE_CONNECTIONS, or raise the server's max_connections"),
    (r"invalid (connection option|\S+ value)", "correct what follows the `?` in POCK_DATABASE_URL"),
    (r"unable to open database file|readonly database", "let this user write in POCK_DATA_DIR, or choose another one"),
    (r"is not a database|malformed", "POCK_DATA_DIR holds a damaged file: restore a backup, or choose another folder"),
    (r"disk is full", "make room in POCK_DATA_DIR"),
    (r"is locked", "another process writes to the file; stop it, or use a PostgreSQL"),
    (r"no such table|relation .* does not exist", "run `pock-server migrate`"),
    (r"", _REACH),
)
_OTHER_KINDS = r"permission denied for|invalid connection option|is not a database|malformed"
"""Faults of the setting that drivers count among errors of the programmer."""
_CREDENTIALS = (
    "correct POCK_STORE_ACCESS_KEY and POCK_STORE_SECRET_KEY, or let them read, write, list and delete in the bucket"
)
_STORE = (
    (r"NoSuchBucket|ContainerNotFound|bucket does not exist", "make the bucket, or correct its name in POCK_STORE_URL"),
    (r"PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocation", "correct POCK_STORE_REGION"),
    (r"AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|40[13] |privileges|authenticat", _CREDENTIALS),
    (r"169\.254\.169\.254", "no credentials were found: set POCK_STORE_ACCESS_KEY and POCK_STORE_SECRET_KEY"),
    (r"RequestTimeTooSkewed", "set this machine's clock right"),
    (r"No such file|os error", "let this user write in the folder of POCK_STORE_URL, or in POCK_DATA_DIR"),
    (r"", "is it up, and are POCK_STORE_URL and POCK_STORE_ENDPOINT right?"),
)
_XML_CODE = re.compile(r"<Code>(\w{1,60})</Code>")


def explain(error: BaseException) -> str | None:
    """The sentence: which setting is wrong, or what does not answer, and what to do. None if the fault is ours."""
    if isinstance(error, UnusableSetting | CannotUnwrap | KeyNotTrusted):
        return _harmless(str(error))
    if isinstance(error, StoreFailed):
        return _harmless(_store(error))
    if isinstance(error, CommandError) and "Can't locate revision" in str(error):
        return (
            "the database was used by a newer version of the service; run that version, restore a backup of this one, "
            "or correct POCK_DATABASE_URL"
        )
    if isinstance(error, DBAPIError) and (isinstance(error, OperationalError | InterfaceError) or _is_setting(error)):
        reason = _first_line(str(error.orig))
        return _harmless(f"the database cannot be used: {reason}; {_hint(_DATABASE, str(error.orig))}")
    return None


def _is_setting(error: DBAPIError) -> bool:
    return re.search(_OTHER_KINDS, str(error.orig)) is not None


def _store(error: StoreFailed) -> str:
    text = str(error.__cause__ or error)
    found = _XML_CODE.search(text)
    reason = found.group(1) if found else _first_line(text).rpartition(" - ")[2]
    return f"the object store cannot be used: {reason}; {_hint(_STORE, text)}"


def _hint(table: tuple[tuple[str, str], ...], text: str) -> str:
    return next(hint for pattern, hint in table if re.search(pattern, text))


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return (lines[0] if lines else "it gives no reason").rstrip(".;:")


def _harmless(text: str) -> str:
    """Without passwords, which messages of drivers may repeat, and on one line."""
    return visible(clean(text, _CHARACTERS))
