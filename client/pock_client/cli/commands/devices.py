"""`devices`, `enroll-token`: the fleet, and who comes in."""

from __future__ import annotations

import shlex
from itertools import islice
from typing import Annotated, Any

import typer

from ...credentials import find
from ..console import ago, note, plain, say, short, show_json, show_table, size
from ..options import Json, Limit, On, Profile
from ..session import connected

_MOST_SECONDS = 900


def devices(on: On = None, limit: Limit = 200, profile: Profile = None, json: Json = False) -> None:
    """List devices: what they are, and whether they are there."""
    with connected(profile) as client:
        found = list(islice(client.devices.list(on), limit))
    if json:
        show_json({"items": plain(found)})
        return
    titles = ("device", "pool", "target", "state", "seen", "memory", "agent", "labels", "id")
    empty = "no devices; `enroll-token` lets one in" if on is None else f"no device matches '{on}'"
    show_table(titles, map(_row, found), empty)


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
