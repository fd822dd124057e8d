"""The command `worker`: builds what the service queues, on any machine that reaches database, store and broker."""

import asyncio
from typing import Annotated

import typer

from pock_server.cli.common import DataDir, refuse, settings_for
from pock_server.cli.outside import check_folders, check_outside
from pock_server.db.engine import is_postgres
from pock_server.health.exposition import metrics_server
from pock_server.observing import logs
from pock_server.sandbox.choice import SandboxUnavailable, choose_sandbox
from pock_server.services import make_services


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
        choose_sandbox(settings)
    except SandboxUnavailable as error:
        raise refuse(str(error)) from None
    from pock_server.broker.working import work  # who has no broker need not load Celery

    check_folders(settings, builds=True)
    services = make_services(settings)
    check_outside(services)
    try:
        with metrics_server(settings, services.metrics):
            asyncio.run(work(services, settings.parallel_builds))
    except RuntimeError as error:
        raise refuse(str(error)) from None
    finally:
        services.traces.close()
        services.database.engine.dispose()
