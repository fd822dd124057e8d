"""`devices` with `devices policy`, `enroll-token`: the fleet, what it may do when, and who comes in."""

from __future__ import annotations

import shlex
import tomllib
from itertools import islice
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from ...credentials import find
from ..console import ago, note, plain, rest_words, say, short, show_json, show_table, size
from ..faults import Refused, ServiceCommand, ServiceGroup
from ..options import Json, Limit, On, Profile
from ..session import connected

_MOST_SECONDS = 900
_MOST_BYTES = 64 * 1024

devices_app = typer.Typer(name="devices", cls=ServiceGroup)


@devices_app.callback(invoke_without_command=True)
def devices(
    context: typer.Context, on: On = None, limit: Limit = 200, profile: Profile = None, json: Json = False
) -> None:
    """List devices: what they are, and whether they are there; or, with a command, say when they may work."""
    if context.invoked_subcommand is not None:
        return
    with connected(profile) as client:
        found = list(islice(client.devices.list(on), limit))
    if json:
        show_json({"items": plain(found)})
        return
    titles = ("device", "pool", "target", "state", "seen", "memory", "agent", "labels", "id")
    empty = "no devices; `enroll-token` lets one in" if on is None else f"no device matches '{on}'"
    show_table(titles, map(_row, found), empty)


@devices_app.command("policy", cls=ServiceCommand)
def policy(
    reference: Annotated[str, typer.Argument(metavar="DEVICE|pool=POOL", help="Whose policy.", show_default=False)],
    rules: Annotated[
        Path | None, typer.Option("--set", metavar="FILE", help="Set the rules of a TOML file.", exists=True)
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take the policy away.")] = False,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Show when a device, or a pool's devices, may work, or set it; the owner of a device may allow less."""
    if rules is not None and remove:
        raise typer.BadParameter("it is either --set or --remove")
    _, is_pool, pool = reference.partition("pool=")
    with connected(profile) as client:
        subject = {"pool": pool} if is_pool else {"device": client.devices.find(reference).id}
        if rules is not None:
            client.policies.set(_rules(rules), **subject)
        elif remove:
            client.policies.remove(**subject)
        if remove and is_pool:
            say(f"pool {pool} has no policy any more")
            return
        found = client.policies.get(**subject)
    if json:
        show_json(found)
        return
    for line in _policy_lines(found):
        say(line)


def enroll_token(
    name: Annotated[str | None, typer.Option("--name", help="Of the device; default: the one it gives itself.")] = None,
    pool: Annotated[str, typer.Option("--pool", help="Where it belongs.")] = "default",
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="Of the device; may be said again.")
    ] = None,
    seconds: Annotated[
        int, typer.Option("--seconds", min=1, max=_MOST_SECONDS, help="How long the token works.")
    ] = _MOST_SECONDS,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Let one device in: prints the command to run there, once, within 15 minutes."""
    labels = dict(_label(one) for one in label or ())
    url = find(profile=profile).url
    with connected(profile) as client:
        made = client.enrolment_tokens.create(name=name, pool=pool, ttl_seconds=seconds, labels=labels)
    if json:
        show_json({"url": url, **plain(made)})
        return
    say(shlex.join(["pock-agent", "enroll", url, made.token]))
    note(f"for one device, until {made.expires_at.astimezone():%H:%M}; it is shown this once")


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise typer.BadParameter(f"'{text}' is no label; it looks like room=attic", param_hint="--label")
    return key, value


def _rules(path: Path) -> dict[str, Any]:
    """What a file says, in the form of a device owner's `policy.toml`; the service checks it."""
    content = path.read_bytes()[: _MOST_BYTES + 1]
    if len(content) > _MOST_BYTES:
        raise Refused(f"{path} is longer than {_MOST_BYTES} bytes")
    try:
        return tomllib.loads(content.decode())
    except ValueError as error:
        raise Refused(f"{path} is no TOML: {error}") from None


def _policy_lines(found: Any) -> list[str]:
    """The rules of a device's policies or of a pool's, and why the device rests."""
    lines = [f"pool {found.pool}: {_said(getattr(found, 'pool_policy', found.policy))}"]
    if hasattr(found, "known"):
        lines.append(f"device: {_said(found.policy)}")
        lines.append("the device keeps them" if found.known else "the device has not got them yet")
        if found.resting is not None:
            lines.append(f"it rests: {rest_words(found.resting)}")
    return lines


def _said(policy: Any) -> str:
    """The rules that are set, as in a file."""
    if policy is None:
        return "no policy"
    rules = {name: value for name, value in plain(policy).items() if not _unset(value)}
    return ", ".join(f"{name} = {dumps(value)}" for name, value in rules.items()) or "no rules"


def _unset(rule: Any) -> bool:
    """Whether it forbids nothing; a limit of 0, which Python takes for False, forbids all."""
    return rule is None or rule is False or rule == "allow"


def _row(one: Any) -> tuple[str, ...]:
    facts = one.facts if isinstance(one.facts, dict) else {}
    memory = facts.get("memory_bytes")
    return (
        one.name,
        one.pool,
        one.target or "–",
        str(one.state),
        ago(one.last_seen_at),
        size(memory) if isinstance(memory, int | float) else "–",
        one.agent_version or "–",
        ", ".join(f"{key}={value}" for key, value in one.labels.items()) or "–",
        short(one.id),
    )
