"""The command `pock-server`: serve, migrate, and make the first credentials."""

import typer

from pock_server.cli import (
    audit,
    backup,
    credentials,
    members,
    serving,
    storage,
    worker,
    workspaces,
)
from pock_server.cli.doctor import doctor
from pock_server.cli.faults import sentences
from pock_server.cli.signing import agent_releases, keys, wrapping

_COMMANDS = (
    serving.serve,
    worker.worker,
    serving.migrate,
    credentials.create_key,
    credentials.create_token,
    credentials.revoke_devices,
    keys.rotate_keys,
    wrapping.rotate_wrapping_key,
    audit.audit,
    doctor,
    storage.scrub,
    storage.gc,
    backup.backup,
    backup.restore,
    serving.openapi,
)

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__, pretty_exceptions_enable=False)
for command in _COMMANDS:
    app.command()(command)
app.add_typer(members.app, name="members")
app.add_typer(workspaces.app, name="workspaces")
app.add_typer(keys.trust_app)
app.add_typer(agent_releases.agent_release_app)


def main() -> None:
    """Entry point."""
    with sentences():
        app()
