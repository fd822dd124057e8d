"""Commands that serve: `serve`, `migrate`, `openapi`."""

import json
import socket
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from pock_server.cli.common import AsJson, DataDir, refuse, settings_for
from pock_server.cli.outside import check_folders, check_outside
from pock_server.db.engine import is_postgres, make_engine
from pock_server.migrations.runner import upgrade
from pock_server.observing import logs
from pock_server.sandbox.choice import SandboxUnavailable, choose_sandbox
from pock_server.services import make_services
from pock_server.settings import Settings
from pock_server.trust.start import secure_keys


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.", min=0, max=65535)] = 8080,
    data_dir: DataDir = None,
    as_json: AsJson = False,
    migrate_first: Annotated[bool, typer.Option("--migrate/--no-migrate", help="Bring the database up first.")] = True,
    workers: Annotated[
        int,
        typer.Option(
            help="Processes that serve, each with the rates of the settings; several need PostgreSQL.", min=1, max=64
        ),
    ] = 1,
) -> None:
    """Serve the API and the dashboard."""
    settings = settings_for(data_dir)
    logs.configure(settings)
    if workers > 1 and not is_postgres(settings):
        raise refuse("SQLite serves one process; set POCK_DATABASE_URL to a PostgreSQL for --workers of more than 1")
    if settings.runner == "celery" and not (settings.broker_url and is_postgres(settings)):
        raise refuse("POCK_RUNNER=celery needs POCK_BROKER_URL (Redis) and POCK_DATABASE_URL (PostgreSQL); set both")
    _prepare(settings, migrate_first)
    from pock_server.processes import one, several  # the application takes a second to import: a refusal needs it not

    listener = _listener(host, port)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listener.getsockname()[1]}"

    def announce() -> None:
        print(json.dumps({"url": url}) if as_json else f"PockEngine serves at {url}", flush=True)

    if workers > 1:
        served = several.supervise(settings, listener, workers, announce)
    else:
        served = one.run_process(settings, listener, announce)
    if not served:
        raise typer.Exit(1)


def _prepare(settings: Settings, migrate_first: bool) -> None:
    """Bring the database up and see to the signing key, before anything listens."""
    check_folders(settings, builds=settings.runner == "inprocess")
    services = make_services(settings)
    check_outside(services)
    if migrate_first:
        upgrade(services.database.engine)
    try:
        secure_keys(services)
    except ValueError as error:
        raise refuse(str(error)) from None
    services.database.engine.dispose()
    try:
        if settings.runner == "inprocess":
            choose_sandbox(settings)
    except SandboxUnavailable as error:
        raise refuse(str(error)) from None


def _listener(host: str, port: int) -> socket.socket:
    try:
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except (OSError, UnicodeError, TypeError) as error:  # the latter two for a name that can be none
        reason = error.strerror if isinstance(error, OSError) else "this is no name of a host"
        way_out = "correct --host, or choose another one with --port"
        raise refuse(f"cannot listen on {host} port {port}: {reason}; {way_out}") from None
    return listener


def migrate(data_dir: DataDir = None) -> None:
    """Bring the database up to this version."""
    engine = make_engine(settings_for(data_dir))
    upgrade(engine)
    engine.dispose()


def openapi() -> None:
    """Print the OpenAPI document."""
    from pock_server.app import create_app

    with tempfile.TemporaryDirectory() as folder:  # the document does not depend on the settings; leave no data behind
        document = create_app(Settings(data_dir=Path(folder))).openapi()
    print(json.dumps(document, indent=2, ensure_ascii=False))
