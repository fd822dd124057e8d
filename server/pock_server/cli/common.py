"""What the commands share: options, settings with the data folder of the command line, refusals."""

import getpass
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError
from pydantic_settings import SettingsError

from pock_server.actor import Actor, ActorKind, Source
from pock_server.http.problems import Problem
from pock_server.migrations.runner import upgrade
from pock_server.services import Services, make_services
from pock_server.settings import Settings

DataDir = Annotated[Path | None, typer.Option(help="Folder of the embedded database, blobs and keys.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Workspace = Annotated[str, typer.Option(help="Name of the workspace; made if there is none.")]


def settings_for(data_dir: Path | None) -> Settings:
    """The settings of the environment; the command line's data folder comes first. Refuses those that are wrong."""
    try:
        return Settings() if data_dir is None else Settings(data_dir=data_dir)
    except ValidationError as error:  # its own text shows the values, and some are secrets
        wrong = [
            f"POCK_{str(found['loc'][0]).upper()}: {found['msg'].removeprefix('Value error, ')}"
            for found in error.errors()
            if found["loc"]
        ]
        raise refuse(f"settings that cannot be used: {'; '.join(wrong)}") from None
    except SettingsError as error:
        raise refuse(str(error)) from None


def migrated(data_dir: Path | None) -> Services:
    """The services on a database that is up to date."""
    services = make_services(settings_for(data_dir))
    upgrade(services.database.engine)
    return services


def command_line() -> Actor:
    """The person at the shell, for the audit log."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        user = "unknown user"
    return Actor(ActorKind.COMMAND_LINE, user[:200], source=Source(address=socket.gethostname()[:100]))


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what the service would answer as a problem, or what does not validate, into a refusal of the command."""
    try:
        yield
    except Problem as problem:
        raise refuse(problem.detail) from None
    except ValidationError as error:
        first = error.errors()[0]
        raise refuse(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def refuse(message: str) -> typer.Exit:
    """Say in one sentence why the command does nothing; raise what this returns."""
    print(f"pock-server: {message}", file=sys.stderr)
    return typer.Exit(2)
