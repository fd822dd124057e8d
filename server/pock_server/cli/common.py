"""What the commands share: options, settings with the data folder of the command line, refusals."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from pock_server.migrations.runner import upgrade
from pock_server.services import Services, make_services
from pock_server.settings import Settings

DataDir = Annotated[Path | None, typer.Option(help="Folder of the embedded database, blobs and keys.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Workspace = Annotated[str, typer.Option(help="Name of the workspace; made if there is none.")]


def settings_for(data_dir: Path | None) -> Settings:
    """The settings of the environment; the command line's data folder comes first."""
    return Settings() if data_dir is None else Settings(data_dir=data_dir)


def migrated(data_dir: Path | None) -> Services:
    """The services on a database that is up to date."""
    services = make_services(settings_for(data_dir))
    upgrade(services.database.engine)
    return services


def refuse(message: str) -> typer.Exit:
    """Say in one sentence why the command does nothing; raise what this returns."""
    print(f"pock-server: {message}", file=sys.stderr)
    return typer.Exit(2)
