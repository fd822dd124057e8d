"""`pock-server members`: who belongs to a workspace, and as what."""

import json
from typing import Annotated

import typer

from pock_server.auth.repository import find_workspace
from pock_server.auth.roles import Role
from pock_server.auth.schemas import Scope
from pock_server.auth.service import find_or_add_workspace
from pock_server.cli.common import AsJson, DataDir, Workspace, command_line, migrated, refusals, refuse
from pock_server.members.repository import Members
from pock_server.members.schemas import MemberChange, MemberIn, MemberOut
from pock_server.members.service import add_member, change_member, describe

app = typer.Typer(no_args_is_help=True, help="Show, add and change the members of a workspace.")

Name = Annotated[str, typer.Argument(help="Name of the person or script.")]
Email = Annotated[str | None, typer.Option(help="E-mail address, for other people to read.")]
_ALL = frozenset(Scope)
"""A person at the server's shell can do everything."""


@app.command("list")
def list_members(workspace: Workspace = "default", data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List the members, oldest first."""
    services = migrated(data_dir)
    with services.database.read() as session:
        home = find_workspace(session, workspace)
        rows = Members(session, home.id).in_order() if home else []
        found = [describe(row) for row in rows]
    if as_json:
        print(json.dumps({"items": [member.model_dump(mode="json") for member in found]}))
        return
    for member in found:
        print(_line(member))


@app.command()
def add(
    name: Name,
    role: Annotated[Role, typer.Option(help="What the member may do.")],
    email: Email = None,
    workspace: Workspace = "default",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Add a member; make a key for it with `pock-server create-key --member NAME`."""
    services = migrated(data_dir)
    now = services.clock.now()
    with refusals(), services.database.write(command_line()) as unit:
        home = find_or_add_workspace(unit, workspace, now)
        _show(describe(add_member(unit, home.id, _ALL, MemberIn(name=name, email=email, role=role), now)), as_json)


@app.command()
def change(
    name: Name,
    role: Annotated[Role | None, typer.Option(help="New role; the member's keys lose at once what it lacks.")] = None,
    new_name: Annotated[str | None, typer.Option(help="New name.")] = None,
    email: Email = None,
    workspace: Workspace = "default",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Change a member's role, name or e-mail."""
    with refusals():
        order = MemberChange(name=new_name, email=email, role=role)
    _change(name, order, workspace, data_dir, as_json)


@app.command()
def disable(name: Name, workspace: Workspace = "default", data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Disable a member: its keys open nothing, and its browsers are signed out."""
    _change(name, MemberChange(disabled=True), workspace, data_dir, as_json)


@app.command()
def enable(name: Name, workspace: Workspace = "default", data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Let a disabled member in again."""
    _change(name, MemberChange(disabled=False), workspace, data_dir, as_json)


def _change(name: str, order: MemberChange, workspace: str, data_dir: DataDir, as_json: bool) -> None:
    services = migrated(data_dir)
    with refusals(), services.database.write(command_line()) as unit:
        home = find_workspace(unit.session, workspace)
        row = Members(unit.session, home.id).named(name) if home else None
        if row is None:
            raise refuse(f"workspace {workspace} has no member {name}; `pock-server members list` shows who is there")
        _show(describe(change_member(unit, row.workspace_id, _ALL, row.id, order, services.clock.now())), as_json)


def _show(member: MemberOut, as_json: bool) -> None:
    print(member.model_dump_json() if as_json else _line(member))


def _line(member: MemberOut) -> str:
    notes = [f"<{member.email}>"] if member.email else []
    notes += [f"disabled {member.disabled_at:%Y-%m-%d %H:%M}"] if member.disabled_at else []
    return "  ".join([f"{member.role:<10}", member.name, *notes])
