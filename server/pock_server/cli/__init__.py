"""The command `pock-server`: serve, migrate, and make the first credentials."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

_COMMANDS = {
    "serve": "serving:serve",
    "worker": "worker:worker",
    "migrate": "serving:migrate",
    "create-key": "credentials:create_key",
    "create-token": "credentials:create_token",
    "revoke-devices": "credentials:revoke_devices",
    "rotate-keys": "signing.keys:rotate_keys",
    "rotate-wrapping-key": "signing.wrapping:rotate_wrapping_key",
    "audit": "audit:audit",
    "doctor": "doctor:doctor",
    "scrub": "storage:scrub",
    "gc": "storage:gc",
    "backup": "backup:backup",
    "restore": "backup:restore",
    "openapi": "serving:openapi",
    "members": "members:app",
    "workspaces": "workspaces:app",
    "trust": "signing.keys:trust_app",
    "agent-release": "signing.agent_releases:agent_release_app",
}
"""Where each command is, so that a command imports what it needs and no more."""


class _Commands(TyperGroup):
    """The commands of the table, each imported when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """In the table's order."""
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name, or None."""
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name].partition(":")
        found = getattr(import_module(f"{__name__}.{module}"), attribute)
        alone = typer.Typer()
        if isinstance(found, typer.Typer):
            alone.add_typer(found, name=cmd_name)
        else:
            alone.command(cmd_name)(found)
        return typer.main.get_group(alone).commands[cmd_name]


app = typer.Typer(cls=_Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def _commands() -> None:
    """The command `pock-server`: serve, migrate, and make the first credentials."""


@contextmanager
def sentences() -> Iterator[None]:
    """End the command with status 2 and one sentence, if the block fails by what an operator can put right."""
    try:
        yield
    except Exception as error:
        from pock_server.cli.faults import explain  # knows every part that can fail

        said = explain(error)
        if said is None:
            raise
        print(f"pock-server: {said}", file=sys.stderr)
        raise SystemExit(2) from None


def main() -> None:
    """Entry point."""
    with sentences():
        app()
