"""The database: reachable, migrated, roomy, and of the same time."""

from collections.abc import Iterator
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine, text

from pock_server.clock import SystemClock
from pock_server.db.engine import make_engine, missing_file
from pock_server.db.unit import Database
from pock_server.doctor.findings import Finding, Outcome, fail, ok, warn
from pock_server.http.problems import Problem
from pock_server.hub import Hub
from pock_server.migrations.runner import current_revision, head_revision
from pock_server.settings import Settings
from pock_server.targets.service import Compilers

_CLOCKS_APART = 2.0
_SHARE = 0.8


def check(settings: Settings) -> Iterator[Finding]:
    """Everything about it."""
    file = missing_file(settings)
    if file is not None:
        yield warn("database", f"there is none yet: `pock-server serve` or `pock-server migrate` makes {file}.")
        return
    engine = make_engine(settings)
    try:
        try:
            with engine.connect() as connection:
                yield ok("database", _version(connection))
                yield from _postgresql(connection, settings) if engine.dialect.name == "postgresql" else ()
        except Exception as error:
            reason = str(error.__cause__ or error).strip().partition("\n")[0]
            yield fail("database", f"it does not answer: {reason}; is it up, and POCK_DATABASE_URL right?")
            return
        migrations = _migrations(engine)
        yield migrations
        if migrations.outcome is Outcome.OK:
            yield _compiler(engine)
    finally:
        engine.dispose()


def _version(connection: Connection) -> str:
    if connection.dialect.name == "postgresql":
        return f"PostgreSQL {connection.execute(text('SHOW server_version')).scalar_one()}"
    return f"SQLite {connection.execute(text('SELECT sqlite_version()')).scalar_one()}: for one process"


def _migrations(engine: Engine) -> Finding:
    current, head = current_revision(engine), head_revision()
    if current == head:
        return ok("migrations", f"at {head}, the newest")
    return fail("migrations", f"the database is at {current or 'no revision'}, not {head}; run `pock-server migrate`.")


def _compiler(engine: Engine) -> Finding:
    """A worker has described it."""
    try:
        found = Compilers(Database(engine, Hub()), SystemClock()).load()
    except Problem:
        return warn("compiler", "no worker has described it yet: builds are refused until one starts.")
    return ok("compiler", f"{found.version}, {len(found.targets)} targets")


def _postgresql(connection: Connection, settings: Settings) -> Iterator[Finding]:
    isolation = str(connection.execute(text("SHOW default_transaction_isolation")).scalar_one())
    if isolation != "read committed":
        yield warn(
            "isolation", f"the default is {isolation!r}, and the service is tested with 'read committed'; set that."
        )
    most = int(connection.execute(text("SHOW max_connections")).scalar_one())
    kept = int(connection.execute(text("SHOW superuser_reserved_connections")).scalar_one())
    mine, room = settings.database_connections, int((most - kept) * _SHARE)
    if mine > room:
        says = f"a process may hold {mine}, and the server has {most}; lower POCK_DATABASE_CONNECTIONS to {room}."
        yield fail("connections", says)
    else:
        yield ok("connections", f"{mine} a process of {most}: room for {(most - kept) // mine} processes")
    theirs: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
    apart = abs((datetime.now(UTC) - theirs).total_seconds())
    if apart > _CLOCKS_APART:
        yield warn("database's clock", f"it differs from this machine's by {apart:.0f} s; have NTP set both.")
    else:
        yield ok("database's clock", f"differs by {apart:.1f} s")
