"""Commands that serve: `serve`, `migrate`, `openapi`."""

import json
import resource
import socket
import tempfile
from pathlib import Path
from typing import Annotated

import typer
import uvicorn

from pock_server.app import create_app
from pock_server.cli.common import AsJson, DataDir, refuse, settings_for
from pock_server.devices.trust import KeyNotTrusted, secure_key
from pock_server.health.exposition import metrics_server
from pock_server.http.guard import Guard
from pock_server.http.protocol import protocol_class
from pock_server.hub import Hub
from pock_server.migrations.runner import upgrade
from pock_server.observing import logs
from pock_server.services import Services, make_services
from pock_server.settings import Settings

_OTHER_FILES = 1024
"""Database, store, pipes of builds: what a process opens beside its connections."""


class _Server(uvicorn.Server):
    """Says where it listens as soon as it does, and ends streams and long polls as soon as it stops."""

    def __init__(self, config: uvicorn.Config, hub: Hub, announcement: str) -> None:
        super().__init__(config)
        self._hub = hub
        self._announcement = announcement

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            print(self._announcement, flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._hub.close()
        await super().shutdown(sockets)


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.", min=0, max=65535)] = 8080,
    data_dir: DataDir = None,
    as_json: AsJson = False,
    migrate_first: Annotated[bool, typer.Option("--migrate/--no-migrate", help="Bring the database up first.")] = True,
) -> None:
    """Serve the API and the dashboard."""
    settings = settings_for(data_dir)
    logs.configure(settings)
    application = create_app(settings)
    services: Services = application.state.services
    if migrate_first:
        upgrade(services.database.engine)
    try:
        secure_key(services)
    except (KeyNotTrusted, ValueError) as error:
        raise refuse(str(error)) from None
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        raise refuse(f"cannot listen on {host} port {port}: {error.strerror}; choose another one with --port") from None
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listener.getsockname()[1]}"
    allow_connections(settings.max_connections)
    config = uvicorn.Config(
        application,
        http=protocol_class(Guard(settings.connection_limits)),
        ws="none",
        proxy_headers=False,  # the application itself does it, for trusted proxies alone
        log_config=None,  # its lines go where ours go
        access_log=False,
        timeout_graceful_shutdown=3,
        timeout_keep_alive=60,  # longer than the pause between two heartbeats, so that agents keep their connection
    )
    announcement = json.dumps({"url": url}) if as_json else f"PockEngine serves at {url}"
    server = _Server(config, services.hub, announcement)
    try:
        with metrics_server(settings, services.metrics):
            server.run(sockets=[listener])
    except OSError as error:
        raise refuse(f"cannot serve metrics at port {settings.metrics_port}: {error.strerror}") from None
    if not server.started:
        raise typer.Exit(1)


def allow_connections(connections: int) -> None:
    """Let this process open a file for each connection, and some more, as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))


def migrate(data_dir: DataDir = None) -> None:
    """Bring the database up to this version."""
    upgrade(make_services(settings_for(data_dir)).database.engine)


def openapi() -> None:
    """Print the OpenAPI document."""
    with tempfile.TemporaryDirectory() as folder:  # the document does not depend on the settings; leave no data behind
        document = create_app(Settings(data_dir=Path(folder))).openapi()
    print(json.dumps(document, indent=2, ensure_ascii=False))
