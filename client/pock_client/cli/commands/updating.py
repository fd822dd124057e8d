"""`agent-release`: new versions of the agent for the fleet."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from ..console import ago, plain, say, short, show_json, show_table, size
from ..faults import ServiceCommand
from ..options import Json, Limit, Profile
from ..progress import byte_bar
from ..session import connected

agent_release_app = typer.Typer(
    name="agent-release", no_args_is_help=True, help="Release new versions of the agent, and list them."
)


@agent_release_app.command("push", cls=ServiceCommand)
def push_release(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The agent as one file.", exists=True)],
    document: Annotated[
        Path | None, typer.Option("--document", help="What root keys signed; default: FILE.release.json.")
    ] = None,
    notes: Annotated[str, typer.Option("--notes", help="What is new, for people.")] = "",
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Upload the agent as one file, and the document by which root keys release it.

    `pock-server agent-release sign FILE` makes the document, where the root key is."""
    with connected(profile) as client, byte_bar(file.name) as moved:
        made = client.agent_releases.push(file, document, notes, progress=moved)
    if json:
        show_json(made)
        return
    platforms = ", ".join(sorted(made.files))
    say(f"{file}: agent {made.version} for {platforms}, until {made.expires_at:%Y-%m-%d}, id {short(made.id)}")


@agent_release_app.command("list", cls=ServiceCommand)
def list_releases(limit: Limit = 50, profile: Profile = None, json: Json = False) -> None:
    """List releases of the agent, newest first."""
    with connected(profile) as client:
        found = list(islice(client.agent_releases.list(), limit))
    if json:
        show_json({"items": plain(found)})
        return
    titles = ("version", "platforms", "size", "until", "notes", "id", "pushed")
    show_table(titles, map(_row, found), "no releases; `agent-release push FILE` makes one")


@agent_release_app.command("delete", cls=ServiceCommand)
def delete_release(
    version: Annotated[str, typer.Argument(metavar="VERSION", help="Its version, or its id.")], profile: Profile = None
) -> None:
    """Forget a release; devices that have it keep it."""
    with connected(profile) as client:
        client.agent_releases.delete(client.agent_releases.find(version).id)
    say(f"agent release {version} is gone")


def _row(one: Any) -> tuple[str, ...]:
    sizes = {file.sha256: file.size for file in one.files.values()}
    return (
        one.version,
        ", ".join(sorted(one.files)),
        size(sum(sizes.values())),
        f"{one.expires_at:%Y-%m-%d}",
        one.notes or "–",
        short(one.id),
        ago(one.created_at),
    )
