"""`schedule`: campaigns again and again, at the times of a cron expression."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from ... import Client
from ..campaign_orders import read_file, resolved
from ..console import ago, plain, say, short, show_json, show_table
from ..faults import Refused, ServiceCommand
from ..lookup import fits
from ..options import Json, Limit, Profile
from ..session import connected

_MOST = 1000
schedule_app = typer.Typer(name="schedule", no_args_is_help=True, help="Run campaigns again and again.")
Ref = Annotated[str, typer.Argument(metavar="SCHEDULE", help="A name, an id or its end.", show_default=False)]


@schedule_app.command("create", cls=ServiceCommand)
def create(
    file: Annotated[Path, typer.Argument(metavar="FILE.yaml", help="As for `campaign create`.", exists=True)],
    cron: Annotated[str, typer.Option("--cron", help="Such as '0 3 * * *': minute, hour, day, month, weekday.")],
    timezone: Annotated[str, typer.Option("--timezone", help="Such as Europe/Berlin.")] = "UTC",
    name: Annotated[str | None, typer.Option("--name", help="Default: the campaign's.")] = None,
    skip: Annotated[bool, typer.Option("--skip/--no-skip", help="Not while the last one runs.")] = True,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Run the campaign of a file at the times of a cron expression."""
    with connected(profile) as client:
        order = resolved(client, read_file(file))
        campaign = client.campaigns.body(**order)
        made = client.schedules.create(
            name=name or order["name"], cron=cron, timezone=timezone, campaign=campaign, skip_if_running=skip
        )
    _say(made, json)


@schedule_app.command("list", cls=ServiceCommand)
def list_schedules(limit: Limit = 50, profile: Profile = None, json: Json = False) -> None:
    """List schedules, newest first."""
    with connected(profile) as client:
        found = list(islice(client.schedules.list(), limit))
    if json:
        show_json({"items": plain(found)})
        return
    rows = [(short(one.id), one.name, one.cron, one.timezone, _next(one), _last(one)) for one in found]
    show_table(
        ("schedule", "name", "cron", "time zone", "next", "last"), rows, "no schedules; `schedule create` makes one"
    )


@schedule_app.command("show", cls=ServiceCommand)
def show(schedule: Ref, limit: Limit = 50, profile: Profile = None, json: Json = False) -> None:
    """Show when a schedule was due, and what became of each time."""
    with connected(profile) as client:
        found = _find(client, schedule)
        times = list(islice(client.schedules.times(found.id), limit))
    if json:
        show_json({"schedule": plain(found), "times": plain(times)})
        return
    rows = [(f"{one.due_at:%Y-%m-%d %H:%M}", str(one.outcome), one.detail or "–") for one in times]
    show_table(("due (UTC)", "outcome", "detail"), rows, f"{found.name} was not due yet; next: {_next(found)}")


@schedule_app.command("pause", cls=ServiceCommand)
def pause(schedule: Ref, profile: Profile = None, json: Json = False) -> None:
    """Let a schedule be due no more, until it is resumed."""
    with connected(profile) as client:
        _say(client.schedules.change(_find(client, schedule).id, enabled=False), json)


@schedule_app.command("resume", cls=ServiceCommand)
def resume(schedule: Ref, profile: Profile = None, json: Json = False) -> None:
    """Let a schedule be due again."""
    with connected(profile) as client:
        _say(client.schedules.change(_find(client, schedule).id, enabled=True), json)


@schedule_app.command("delete", cls=ServiceCommand)
def delete(schedule: Ref, profile: Profile = None) -> None:
    """Forget a schedule; what it asked for stays."""
    with connected(profile) as client:
        found = _find(client, schedule)
        client.schedules.delete(found.id)
    say(f"{found.name}: deleted")


def _find(client: Client, word: str) -> Any:
    found = next((one for one in islice(client.schedules.list(), _MOST) if fits(word, one, lambda o: (o.name,))), None)
    if found is None:
        raise Refused(f"no schedule is called '{word}'; `schedule list` lists all")
    return found


def _next(one: Any) -> str:
    return "paused" if one.next_at is None else f"{one.next_at:%Y-%m-%d %H:%M} UTC"


def _last(one: Any) -> str:
    return "–" if one.last is None else f"{one.last.outcome} {ago(one.last.due_at)}"


def _say(one: Any, as_json: bool) -> None:
    show_json(one) if as_json else say(f"{one.name}: next {_next(one)}")
