"""The seam between `pock` and the commands of pock-client, which talk to a service.

Nothing of pock-client is imported before one of its commands, or the list of all, is asked for.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from typer.core import TyperGroup

from ..errors import PockError, nearest

_INSTALL = "the commands that talk to a service come with pock-client: pip install pock-client"


class Entry(StrEnum):
    """What of an artifact `pock run OUT.pock ENTRY` runs."""

    TRAIN = "train"
    """Training steps on a dataset."""
    EVAL = "eval"
    """Loss and accuracy on a dataset."""
    PREDICT = "predict"
    """Outputs for a dataset's samples."""
    BENCH = "bench"
    """Timed steps on made-up numbers."""
    GENERATE = "generate"
    """Tokens that follow a prompt."""
    INFO = "info"
    """What the artifact says of itself."""


class Commands(TyperGroup):
    """The commands of `pock`: its own, which win where names clash, and those of pock-client."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Own commands first, each group in its order."""
        own = super().list_commands(ctx)
        return [*own, *(name for name in _of_the_service() or () if name not in own)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name, or None."""
        return super().get_command(ctx, cmd_name) or (_of_the_service() or {}).get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Whose command is called: `run` is the service's unless its first argument is an artifact."""
        name, rest = args[0], args[1:]
        own = super().get_command(ctx, name)
        if own is not None and (name != "run" or runs_here(rest)):
            return name, own, rest
        commands = _of_the_service()
        if name.startswith("-") or (ctx.resilient_parsing and name not in (commands or ())):
            return super().resolve_command(ctx, args)
        if commands is None and own is not None:
            raise PockError(f"'{rest[0]}' is no artifact (a file that ends in .pock); {_INSTALL}")
        if commands is None or name not in commands:
            missing = "" if commands is not None else f"; {_INSTALL}"
            raise PockError(f"there is no command '{name}'{nearest(name, self.list_commands(ctx))}{missing}")
        gc.enable()  # `pock` turns it off for graphs, which have no cycles; one that waits for hours makes some
        return name, commands[name], rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Two lists: what works on this machine, and what a service does."""
        own = super().list_commands(ctx)
        _write(formatter, "On this machine", {name: self.commands[name] for name in own})
        remote = _of_the_service()
        if remote is None:
            with formatter.section("On a service"):
                formatter.write_text(f"({_INSTALL})")
        else:
            _write(
                formatter, "On a service", {name: remote[name] for name in remote if name == "run" or name not in own}
            )


def runs_here(arguments: Sequence[str]) -> bool:
    """Whether the arguments of `pock run` are of an artifact on this machine: there are none, or the first is a path
    that ends in `.pock`, or a file that is followed by what of it to run."""
    words = [word for word in arguments if word not in ("--json", "--help")]
    if not words:
        return True
    if words[0].endswith(".pock"):
        return True
    return len(words) > 1 and words[1] in list(Entry) and Path(words[0]).is_file()


def _write(formatter: Any, title: str, commands: Mapping[str, Any]) -> None:
    """A section of the help: each command with the first sentence of its own."""
    shown = {name: command for name, command in commands.items() if not command.hidden}
    room = formatter.width - 6 - max(map(len, shown))
    with formatter.section(title):
        formatter.write_dl([(name, command.get_short_help_str(room)) for name, command in shown.items()])


def _of_the_service() -> Mapping[str, Any] | None:
    """The commands of pock-client by name, or None where it is not installed."""
    try:
        from pock_client.cli import all_commands
    except ModuleNotFoundError as error:
        if error.name not in ("pock_client", "pock_client.cli"):
            raise
        return None
    return all_commands()
