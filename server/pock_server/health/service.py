"""What `/readyz` checks."""

from collections.abc import Callable

from sqlalchemy import text

from pock_server.health.schemas import Check
from pock_server.migrations.runner import current_revision, head_revision
from pock_server.services import Services


def check_all(services: Services) -> list[Check]:
    """The state of everything that requests depend on."""
    checks = [
        _check("database", lambda: _check_database(services)),
        _check("migrations", lambda: _check_migrations(services)),
        _check("store", services.blobs.check),
    ]
    if services.settings.runner == "celery":
        from pock_server.broker.application import ping  # who has no broker need not load Celery

        # Builds are queued all the same, and built later: no request fails, so no proxy has to keep requests away.
        checks.append(_check("broker", lambda: ping(services.settings)).model_copy(update={"needed": False}))
    return checks


def _check(name: str, probe: Callable[[], None]) -> Check:
    try:
        probe()
    except Exception as error:  # whatever is wrong with a dependency is the answer, not a crash
        return Check(name=name, ok=False, detail=type(error).__name__ + ": " + str(error).split("\n")[0][:200])
    return Check(name=name, ok=True, detail="ok")


def _check_database(services: Services) -> None:
    with services.database.read() as session:
        session.execute(text("SELECT 1"))


def _check_migrations(services: Services) -> None:
    current, head = current_revision(services.database.engine), head_revision()
    if current != head:
        raise RuntimeError(f"the database is at {current or 'no revision'}, not {head}; run `pock-server migrate`")
