"""`pock-server workspaces`: which there are, and how much each may have."""

import json
from typing import Annotated

import typer
from sqlalchemy import select

from pock_server.auth.repository import find_workspace
from pock_server.auth.tables import WorkspaceRecord
from pock_server.cli.common import AsJson, DataDir, command_line, migrated, refusals, refuse
from pock_server.quotas.service import Standing, set_quotas, standings

app = typer.Typer(no_args_is_help=True, help="Show workspaces, and how much each may have.")

Name = Annotated[str, typer.Argument(help="Name of the workspace.")]


@app.command("list")
def list_workspaces(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List the workspaces, oldest first."""
    services = migrated(data_dir)
    with services.database.read() as session:
        rows = session.scalars(select(WorkspaceRecord).order_by(WorkspaceRecord.created_at, WorkspaceRecord.id)).all()
        found = [{"id": row.id, "name": row.name, "quotas": row.quotas or {}} for row in rows]
    if as_json:
        print(json.dumps({"items": found}))
        return
    for row in found:
        print(f"{row['name']}  {row['id']}")


@app.command()
def show(name: Name, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Say what a workspace has and may have."""
    services = migrated(data_dir)
    with services.database.read() as session:
        home = find_workspace(session, name)
        if home is None:
            raise refuse(f"there is no workspace {name}; `pock-server workspaces list` names them")
        _show(standings(session, services.settings, home, services.clock.now()), as_json)


@app.command("set-quota")
def set_quota(
    name: Name,
    quotas: Annotated[
        list[str],
        typer.Argument(metavar="QUOTA=NUMBER…", help="Such as devices=500, or devices=default."),
    ],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Let one workspace have more or less than the settings say. What it has already, it keeps."""
    services = migrated(data_dir)
    wanted = dict(_read(text) for text in quotas)
    with refusals(), services.database.write(command_line()) as unit:
        home = find_workspace(unit.session, name)
        if home is None:
            raise refuse(f"there is no workspace {name}; `pock-server workspaces list` names them")
        now = services.clock.now()
        set_quotas(unit, home, wanted, now)
        _show(standings(unit.session, services.settings, home, now), as_json)


def _read(text: str) -> tuple[str, int | None]:
    quota, _, number = text.partition("=")
    if number == "default":
        return quota, None
    if not (number.isascii() and number.isdecimal()):
        raise refuse(f"{text[:80]!r} is not of the form devices=500 or devices=default")
    return quota, int(number[:30])


def _show(found: list[Standing], as_json: bool) -> None:
    if as_json:
        print(json.dumps({one.quota: {"used": one.used, "limit": one.limit, "own": one.own} for one in found}))
        return
    for one in found:
        print(f"{one.quota:14} {one.used} of {one.limit}{'' if one.own else '  (setting)'}")
