"""The command `pock-server`: serve, migrate, and make the first credentials."""

import json
import socket
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
import uvicorn

from pock_server.app import create_app
from pock_server.auth.repository import ApiKeys, find_or_add_workspace
from pock_server.auth.schemas import MAX_TTL_DAYS, ApiKeyIn, Scope
from pock_server.auth.service import create_key as make_key
from pock_server.devices.repository import EnrolmentTokens
from pock_server.devices.schemas import MAX_TOKEN_SECONDS, TokenIn
from pock_server.devices.service import create_token as make_token
from pock_server.devices.trust import KeyNotTrusted, revoke_strangers, secure_key
from pock_server.hub import Hub
from pock_server.migrations.runner import upgrade
from pock_server.runs.leases import release_device
from pock_server.services import Services, make_services
from pock_server.settings import Settings

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__, pretty_exceptions_enable=False)

DataDir = Annotated[Path | None, typer.Option(help="Folder of the embedded database, blobs and keys.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Workspace = Annotated[str, typer.Option(help="Name of the workspace; made if there is none.")]


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


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.", min=0, max=65535)] = 8080,
    data_dir: DataDir = None,
    as_json: AsJson = False,
    migrate_first: Annotated[bool, typer.Option("--migrate/--no-migrate", help="Bring the database up first.")] = True,
    log_level: Annotated[str, typer.Option(help="Log level of the HTTP server.")] = "warning",
) -> None:
    """Serve the API and the dashboard."""
    settings = _settings(data_dir)
    application = create_app(settings)
    services: Services = application.state.services
    if migrate_first:
        upgrade(services.database.engine)
    try:
        secure_key(services)
    except (KeyNotTrusted, ValueError) as error:
        raise _refuse(str(error)) from None
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        raise _refuse(
            f"cannot listen on {host} port {port}: {error.strerror}; choose another one with --port"
        ) from None
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listener.getsockname()[1]}"
    config = uvicorn.Config(
        application,
        log_level=log_level,
        access_log=False,
        timeout_graceful_shutdown=3,
        timeout_keep_alive=60,  # longer than the pause between two heartbeats, so that agents keep their connection
    )
    announcement = json.dumps({"url": url}) if as_json else f"PockEngine serves at {url}"
    server = _Server(config, services.hub, announcement)
    server.run(sockets=[listener])
    if not server.started:
        raise typer.Exit(1)


@app.command()
def migrate(data_dir: DataDir = None) -> None:
    """Bring the database up to this version."""
    upgrade(make_services(_settings(data_dir)).database.engine)


@app.command()
def create_key(
    scopes: Annotated[str, typer.Option(help="Comma-separated; `all` for every scope.")] = "all",
    name: Annotated[str, typer.Option(help="What the key is for.")] = "command line",
    ttl_days: Annotated[int, typer.Option(min=1, max=MAX_TTL_DAYS)] = 30,
    workspace: Workspace = "default",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Make an API key and print it, this once."""
    services = _migrated(data_dir)
    now = services.clock.now()
    with services.database.write() as unit:
        home = find_or_add_workspace(unit.session, workspace, now)
        order = ApiKeyIn(name=name, scopes=_scopes(scopes), ttl_days=ttl_days)
        made = make_key(ApiKeys(unit.session, home.id), order, now)
    print(made.model_dump_json() if as_json else made.key)


@app.command()
def create_token(
    name: Annotated[str | None, typer.Option(help="Name of the device.")] = None,
    pool: Annotated[str, typer.Option(help="Group of devices.")] = "default",
    ttl_seconds: Annotated[int, typer.Option(min=1, max=MAX_TOKEN_SECONDS)] = MAX_TOKEN_SECONDS,
    workspace: Workspace = "default",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Make an enrolment token for one device and print it, this once."""
    services = _migrated(data_dir)
    now = services.clock.now()
    with services.database.write() as unit:
        home = find_or_add_workspace(unit.session, workspace, now)
        order = TokenIn(name=name, pool=pool, ttl_seconds=ttl_seconds)
        made = make_token(EnrolmentTokens(unit.session, home.id), order, now)
    print(made.model_dump_json() if as_json else made.token)


@app.command()
def revoke_devices(
    data_dir: DataDir = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Give up the devices that trust another signing key than this service's, or one that is lost."""
    services = _migrated(data_dir)
    key_id = services.signer.key_id if services.signer.path.exists() else None
    if not yes:
        typer.confirm("Their agents stop for good and have to be enrolled again. Go on?", abort=True, err=True)
    with services.database.write() as unit:
        revoked = revoke_strangers(unit, key_id)
        for device in revoked:
            release_device(unit, device, services.clock.now())
    print(json.dumps({"revoked": len(revoked)}) if as_json else f"{len(revoked)} devices revoked")


@app.command()
def openapi() -> None:
    """Print the OpenAPI document."""
    with tempfile.TemporaryDirectory() as folder:  # the document does not depend on the settings; leave no data behind
        document = create_app(Settings(data_dir=Path(folder))).openapi()
    print(json.dumps(document, indent=2, ensure_ascii=False))


def _settings(data_dir: Path | None) -> Settings:
    return Settings() if data_dir is None else Settings(data_dir=data_dir)


def _migrated(data_dir: Path | None) -> Services:
    services = make_services(_settings(data_dir))
    upgrade(services.database.engine)
    return services


def _scopes(text: str) -> list[Scope]:
    if text == "all":
        return list(Scope)
    known = [str(scope) for scope in Scope]
    wanted = [part for part in text.replace(",", " ").split() if part]
    unknown = sorted(set(wanted) - set(known))
    if unknown or not wanted:
        raise _refuse(f"unknown scope {', '.join(unknown) or '(none given)'}; known are {', '.join(known)}, all")
    return [Scope(part) for part in wanted]


def _refuse(message: str) -> typer.Exit:
    print(f"pock-server: {message}", file=sys.stderr)
    return typer.Exit(2)


def main() -> None:
    """Entry point."""
    app()


if __name__ == "__main__":
    main()
