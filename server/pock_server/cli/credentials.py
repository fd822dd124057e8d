"""Commands that let people and devices in, and send devices away."""

import json
from collections.abc import Collection
from datetime import datetime
from shlex import quote
from typing import Annotated

import typer

from pock_server.auth.roles import SCOPES_OF, Role
from pock_server.auth.schemas import MAX_TTL_DAYS, ApiKeyIn, Scope
from pock_server.auth.service import create_key as make_key
from pock_server.auth.service import find_or_add_workspace
from pock_server.cli.common import AsJson, DataDir, Workspace, command_line, migrated, refusals, refuse
from pock_server.db.unit import Unit
from pock_server.devices.schemas import MAX_TOKEN_SECONDS, TokenIn
from pock_server.devices.service import create_token as make_token
from pock_server.members.repository import Members
from pock_server.members.schemas import MemberIn
from pock_server.members.service import add_member
from pock_server.members.tables import MemberRecord
from pock_server.runs.leases import release_device
from pock_server.trust.start import give_up


def create_key(
    scopes: Annotated[
        str | None, typer.Option(help="Comma-separated, or `all`; default: what the member's role can, else all.")
    ] = None,
    name: Annotated[str, typer.Option(help="What the key is for.")] = "command line",
    member: Annotated[
        str | None, typer.Option(help="Name of the person or script that the key belongs to; default: nobody.")
    ] = None,
    role: Annotated[Role | None, typer.Option(help="Makes the member if there is none of this name.")] = None,
    ttl_days: Annotated[int, typer.Option(min=1, max=MAX_TTL_DAYS)] = 30,
    workspace: Workspace = "default",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Make an API key and print it, this once."""
    if role is not None and member is None:
        raise refuse("--role is that of a member; name it with --member")
    services = migrated(data_dir)
    now = services.clock.now()
    with refusals(), services.database.write(command_line()) as unit:
        home = find_or_add_workspace(unit, workspace, now)
        owner = _owner(unit, home.id, member, role, now) if member is not None else None
        order = ApiKeyIn(
            name=name,
            member_id=owner.id if owner else None,
            scopes=_scopes(scopes, SCOPES_OF[Role(owner.role)] if owner else frozenset(Scope)),
            ttl_days=ttl_days,
        )
        made = make_key(unit, home.id, order, now)
    print(made.model_dump_json() if as_json else made.key)


def _owner(unit: Unit, workspace_id: str, name: str, role: Role | None, now: datetime) -> MemberRecord:
    found = Members(unit.session, workspace_id).named(name)
    if found is None:
        if role is None:
            raise refuse(f"there is no member {name}; say --role {'|'.join(Role)} to make one")
        return add_member(unit, workspace_id, frozenset(Scope), MemberIn(name=name, role=role), now)
    if role not in (None, found.role):
        raise refuse(
            f"{name} is {found.role}; change that with `pock-server members change {quote(name)} --role {role}`"
        )
    return found


def create_token(
    name: Annotated[str | None, typer.Option(help="Name of the device.")] = None,
    pool: Annotated[str, typer.Option(help="Group of devices.")] = "default",
    label: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Of the device; more than once.")] = None,
    ttl_seconds: Annotated[int, typer.Option(min=1, max=MAX_TOKEN_SECONDS)] = MAX_TOKEN_SECONDS,
    workspace: Workspace = "default",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Make an enrolment token for one device and print it, this once."""
    labels = dict(_label(text) for text in label or ())
    services = migrated(data_dir)
    now = services.clock.now()
    with refusals(), services.database.write(command_line()) as unit:
        home = find_or_add_workspace(unit, workspace, now)
        order = TokenIn(name=name, pool=pool, labels=labels, ttl_seconds=ttl_seconds)
        made = make_token(unit, home.id, order, now)
    print(made.model_dump_json() if as_json else made.token)


def _label(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign:
        raise refuse(f"--label {text}: write KEY=VALUE")
    return key, value


def revoke_devices(
    everyone: Annotated[
        bool, typer.Option("--all", help="Every device, and all keys: the service begins anew when it starts.")
    ] = False,
    data_dir: DataDir = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Give up the devices that believe only a signing key which this service has lost, and that key."""
    services = migrated(data_dir)
    if not yes:
        typer.confirm("Their agents stop for good and have to be enrolled again. Go on?", abort=True, err=True)
    with services.database.write(command_line()) as unit:
        revoked = give_up(unit, services, everyone)
        for device in revoked:
            release_device(unit, device, services.clock.now())
    print(json.dumps({"revoked": len(revoked)}) if as_json else f"{len(revoked)} devices revoked")


def _scopes(text: str | None, usual: Collection[Scope]) -> list[Scope]:
    if text is None:
        return [scope for scope in Scope if scope in usual]
    if text == "all":
        return list(Scope)
    known = [str(scope) for scope in Scope]
    wanted = [part for part in text.replace(",", " ").split() if part]
    unknown = sorted(set(wanted) - set(known))
    if unknown or not wanted:
        raise refuse(f"unknown scope {', '.join(unknown) or '(none given)'}; known are {', '.join(known)}, all")
    return [Scope(part) for part in wanted]
