"""`webhooks`: addresses that are told what happens in the workspace."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import typer

from ... import Client
from ...schema import Event
from ..console import ago, note, plain, say, short, show_json, show_table
from ..faults import Refused, ServiceCommand
from ..lookup import chosen
from ..options import Json, Limit, Profile
from ..session import connected

_MOST = 1000

webhooks_app = typer.Typer(name="webhooks", no_args_is_help=True, help="Addresses that are told what happens.")
Webhook = Annotated[str, typer.Argument(metavar="WEBHOOK", help="Its id or the end of it, its description or address.")]


@webhooks_app.command("add", cls=ServiceCommand)
def add_webhook(
    url: Annotated[str, typer.Argument(metavar="URL", help="https, at a public address.")],
    event: Annotated[list[str], typer.Option("--event", help=f"May be said again: {', '.join(Event)}.")],
    description: Annotated[str | None, typer.Option("--description", help="What it is called.")] = None,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Have an address told of events; prints the secret by which it knows that a message is ours."""
    unknown = [one for one in event if one not in list(Event)]
    if unknown:
        raise typer.BadParameter(f"'{unknown[0]}' is no event; events are {', '.join(Event)}", param_hint="--event")
    with connected(profile) as client:
        made = client.webhooks.create(url, event, description)
    if json:
        show_json(plain(made))
        return
    say(made.secret)
    note(f"this is the secret of webhook {short(made.id)}; it is shown this once")


@webhooks_app.command("list", cls=ServiceCommand)
def list_webhooks(limit: Limit = 50, profile: Profile = None, json: Json = False) -> None:
    """List webhooks, newest first."""
    with connected(profile) as client:
        found = list(islice(client.webhooks.list(), limit))
    if json:
        show_json({"items": plain(found)})
        return
    rows = [(short(one.id), one.description or "–", one.url, " ".join(one.events), _state(one)) for one in found]
    show_table(("webhook", "description", "url", "events", "state"), rows, "no webhooks; `webhooks add URL` makes one")


@webhooks_app.command("deliveries", cls=ServiceCommand)
def list_deliveries(webhook: Webhook, limit: Limit = 50, profile: Profile = None, json: Json = False) -> None:
    """List what was, or is to be, sent to a webhook, newest first."""
    with connected(profile) as client:
        found = list(islice(client.webhooks.deliveries(_find(client, webhook).id), limit))
    if json:
        show_json({"items": plain(found)})
        return
    rows = [
        (short(one.id), one.event, one.state, one.attempts, one.problem or "–", ago(one.created_at)) for one in found
    ]
    show_table(("delivery", "event", "state", "tries", "problem", "happened"), rows, "nothing was sent yet")


@webhooks_app.command("enable", cls=ServiceCommand)
def enable_webhook(webhook: Webhook, profile: Profile = None, json: Json = False) -> None:
    """Tell a webhook again that was disabled, by somebody or after days of failures."""
    _change(webhook, profile, enabled=True, as_json=json)


@webhooks_app.command("disable", cls=ServiceCommand)
def disable_webhook(webhook: Webhook, profile: Profile = None, json: Json = False) -> None:
    """Tell a webhook nothing until it is enabled."""
    _change(webhook, profile, enabled=False, as_json=json)


@webhooks_app.command("remove", cls=ServiceCommand)
def remove_webhook(webhook: Webhook, profile: Profile = None, json: Json = False) -> None:
    """Forget a webhook; what is not sent yet is not sent."""
    with connected(profile) as client:
        found = _find(client, webhook)
        client.webhooks.delete(found.id)
    if json:
        show_json({"id": found.id})
    else:
        say(f"removed {found.url}")


def _change(webhook: str, profile: str | None, *, enabled: bool, as_json: bool) -> None:
    with connected(profile) as client:
        made = client.webhooks.change(_find(client, webhook).id, enabled=enabled)
    if as_json:
        show_json(plain(made))
    else:
        say(f"{made.url}: {_state(made)}")


def _find(client: Client, word: str) -> Any:
    """The one webhook that the word means."""
    found = chosen(client.webhooks.list(), [word], lambda one: (one.description or "", one.url), _MOST)
    if len(found) != 1:
        raise Refused(f"'{word}' is {len(found) or 'none'} of the webhooks; `webhooks list` lists all")
    return found[0]


def _state(one: Any) -> str:
    if not one.enabled:
        return f"disabled: {one.disabled_reason}"
    return "enabled" if one.failing_since is None else f"failing since {ago(one.failing_since)}"
