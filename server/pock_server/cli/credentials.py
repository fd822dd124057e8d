"""Commands that let people and devices in, and send devices away."""

import json
from typing import Annotated

import typer

from pock_server.auth.repository import ApiKeys, find_or_add_workspace
from pock_server.auth.schemas import MAX_TTL_DAYS, ApiKeyIn, Scope
from pock_server.auth.service import create_key as make_key
from pock_server.cli.common import AsJson, DataDir, Workspace, migrated, refuse
from pock_server.devices.repository import EnrolmentTokens
from pock_server.devices.schemas import MAX_TOKEN_SECONDS, TokenIn
from pock_server.devices.service import create_token as make_token
from pock_server.devices.trust import revoke_strangers
from pock_server.runs.leases import release_device


def create_key(
    scopes: Annotated[str, typer.Option(help="Comma-separated; `all` for every scope.")] = "all",
    name: Annotated[str, typer.Option(help="What the key is for.")] = "command line",
    ttl_days: Annotated[int, typer.Option(min=1, max=MAX_TTL_DAYS)] = 30,
    workspace: Workspace = "default",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Make an API key and print it, this once."""
    services = migrated(data_dir)
    now = services.clock.now()
    with services.database.write() as unit:
        home = find_or_add_workspace(unit.session, workspace, now)
        order = ApiKeyIn(name=name, scopes=_scopes(scopes), ttl_days=ttl_days)
        made = make_key(ApiKeys(unit.session, home.id), order, now)
    print(made.model_dump_json() if as_json else made.key)


def create_token(
    name: Annotated[str | None, typer.Option(help="Name of the device.")] = None,
    pool: Annotated[str, typer.Option(help="Group of devices.")] = "default",
    ttl_seconds: Annotated[int, typer.Option(min=1, max=MAX_TOKEN_SECONDS)] = MAX_TOKEN_SECONDS,
    workspace: Workspace = "default",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Make an enrolment token for one device and print it, this once."""
    services = migrated(data_dir)
    now = services.clock.now()
    with services.database.write() as unit:
        home = find_or_add_workspace(unit.session, workspace, now)
        order = TokenIn(name=name, pool=pool, ttl_seconds=ttl_seconds)
        made = make_token(EnrolmentTokens(unit.session, home.id), order, now)
    print(made.model_dump_json() if as_json else made.token)


def revoke_devices(
    data_dir: DataDir = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Give up the devices that trust another signing key than this service's, or one that is lost."""
    services = migrated(data_dir)
    key_id = services.signer.key_id if services.signer.path.exists() else None
    if not yes:
        typer.confirm("Their agents stop for good and have to be enrolled again. Go on?", abort=True, err=True)
    with services.database.write() as unit:
        revoked = revoke_strangers(unit, key_id)
        for device in revoked:
            release_device(unit, device, services.clock.now())
    print(json.dumps({"revoked": len(revoked)}) if as_json else f"{len(revoked)} devices revoked")


def _scopes(text: str) -> list[Scope]:
    if text == "all":
        return list(Scope)
    known = [str(scope) for scope in Scope]
    wanted = [part for part in text.replace(",", " ").split() if part]
    unknown = sorted(set(wanted) - set(known))
    if unknown or not wanted:
        raise refuse(f"unknown scope {', '.join(unknown) or '(none given)'}; known are {', '.join(known)}, all")
    return [Scope(part) for part in wanted]
