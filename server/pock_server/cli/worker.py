"""The command `worker`: builds what the service queues, on any machine that reaches database, store and broker."""

import asyncio
import logging
from typing import Annotated

import typer

from pock_server.cli.common import DataDir, refuse, settings_for
from pock_server.cli.outside import check_folders, check_outside
from pock_server.db.engine import is_postgres
from pock_server.health.exposition import metrics_server
from pock_server.observing import logs
from pock_server.sandbox.choice import SandboxUnavailable, choose_sandbox
from pock_server.services import make_services

_LOOP_SECONDS = 2.0
"""For longer, no step of a healthy worker holds up its other ones."""
_log = logging.getLogger(__name__)


def worker(
    concurrency: Annotated[
        int | None, typer.Option(help="Builds at once; default: POCK_PARALLEL_BUILDS.", min=1, max=256)
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Build what processes with POCK_RUNNER=celery queue, until SIGTERM; running builds are then given back."""
    settings = settings_for(data_dir)
    # The limits of a build are its part of the machine, by the number of those that run at once.
    settings = settings.model_copy(update={"parallel_builds": concurrency or settings.parallel_builds})
    logs.configure(settings)
    if not settings.broker_url:
        raise refuse("a worker hears of builds from a broker; set POCK_BROKER_URL to a Redis (redis://host:6379/0)")
    if not is_postgres(settings):
        raise refuse("SQLite serves one process; set POCK_DATABASE_URL to a PostgreSQL for workers")
    try:
        _log.info("builds run in a %s", choose_sandbox(settings))
    except SandboxUnavailable as error:
        raise refuse(str(error)) from None
    from pock_server.broker.working import work  # who has no broker need not load Celery

    check_folders(settings, builds=True)
    services = make_services(settings)
    check_outside(services)
    try:
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            with metrics_server(settings, services.metrics, lambda: _turns(loop)):
                runner.run(work(services, settings.parallel_builds))
    except RuntimeError as error:
        raise refuse(str(error)) from None
    finally:
        services.traces.close()
        services.database.engine.dispose()


def _turns(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the loop in which builds run gets to new things."""
    try:
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(_LOOP_SECONDS)
    except TimeoutError:
        return False
    return True
