"""`schedule`: campaigns and benchmarks again and again, at the times of a cron expression."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from ... import Client
from ...errors import ServiceError
from .. import completing
from ..campaign_orders import read_file, resolved
from ..console import ago, note, plain, say, short, show_json, show_table
from ..faults import Refused, ServiceCommand, Status
from ..lookup import fits
from ..options import Json, Limit, Profile, Yes
from ..session import connected
from .benchmarking import Baseline, CoolDown, Data, Repeats, Steps, Warmup, measurement, orders
from .running import Builds, Deadline, Order, Selector, Threads, confirmed

_MOST = 1000
schedule_app = typer.Typer(name="schedule", no_args_is_help=True, help="Run campaigns and benchmarks again and again.")
Ref = Annotated[
    str,
    typer.Argument(
        metavar="SCHEDULE",
        help="A name, an id or its end.",
        show_default=False,
        autocompletion=completing.schedules,
    ),
]
Cron = Annotated[str, typer.Option("--cron", help="Such as '0 3 * * *': minute, hour, day, month, weekday.")]
Timezone = Annotated[str, typer.Option("--timezone", help="Such as Europe/Berlin.")]
Skip = Annotated[bool, typer.Option("--skip/--no-skip", help="Not while the last one runs.")]


@schedule_app.command("create", cls=ServiceCommand)
def create(
    file: Annotated[Path, typer.Argument(metavar="FILE.yaml", help="As for `campaign create`.", exists=True)],
    cron: Cron,
    timezone: Timezone = "UTC",
    name: Annotated[str | None, typer.Option("--name", help="Default: the campaign's.")] = None,
    skip: Skip = True,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Run the campaign of a file at the times of a cron expression."""
    with connected(profile) as client:
        order = resolved(client, read_file(file))
        what = client.campaigns.body(**order)
        made = client.schedules.create(
            name=name or order["name"], cron=cron, timezone=timezone, what=what, skip_if_running=skip
        )
    _say(made, json)


@schedule_app.command("bench", cls=ServiceCommand)
def bench(
    builds: Builds,
    on: Selector,
    cron: Cron,
    timezone: Timezone = "UTC",
    name: Annotated[str | None, typer.Option("--name", help="Of one schedule; default: BUILD on DEVICE.")] = None,
    skip: Skip = True,
    data: Data = None,
    steps: Steps = 50,
    warmup: Warmup = 3,
    repeats: Repeats = 7,
    cool_down: CoolDown = 0,
    threads: Threads = None,
    deadline: Deadline = None,
    baseline: Baseline = None,
    yes: Yes = False,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Measure steps at the times of a cron expression, by a schedule for each build on each device that matches now."""
    options = measurement(steps, warmup, repeats, cool_down) | {"threads": threads, "deadline": deadline}
    with connected(profile) as client:
        wanted = orders(client, Order(builds, on, data or "", options, yes, False, None), data, baseline)
        if name is not None and len(wanted) > 1:
            raise typer.BadParameter(f"it would be the name of {len(wanted)} schedules", param_hint="--name")
        confirmed(len(wanted), "schedules", yes=yes)
        made, refused = list[Any](), 0
        for one in wanted:
            title = name or f"{one['build'].name} on {one['device'].name}"
            what = client.benchmarks.body(**one)
            try:
                made.append(
                    client.schedules.create(name=title, cron=cron, timezone=timezone, what=what, skip_if_running=skip)
                )
            except ServiceError as error:
                refused += 1
                note(f"{title} is refused: {error}")
    if json:
        show_json({"schedules": plain(made)})
    for schedule in () if json else made:
        _say(schedule, False)
    if refused:
        raise typer.Exit(Status.REFUSED)


@schedule_app.command("list", cls=ServiceCommand)
def list_schedules(limit: Limit = 50, profile: Profile = None, json: Json = False) -> None:
    """List schedules, newest first."""
    with connected(profile) as client:
        found = list(islice(client.schedules.list(), limit))
    if json:
        show_json({"items": plain(found)})
        return
    rows = [(short(one.id), one.name, _what(one), one.cron, one.timezone, _next(one), _last(one)) for one in found]
    titles = ("schedule", "name", "of a", "cron", "time zone", "next", "last")
    show_table(titles, rows, "no schedules; `schedule create` and `schedule bench` make some")


@schedule_app.command("show", cls=ServiceCommand)
def show(schedule: Ref, limit: Limit = 50, profile: Profile = None, json: Json = False) -> None:
    """Show when a schedule was due, and what became of each time."""
    with connected(profile) as client:
        found = _find(client, schedule)
        times = list(islice(client.schedules.times(found.id), limit))
    if json:
        show_json({"schedule": plain(found), "times": plain(times)})
        return
    rows = [(f"{one.due_at:%Y-%m-%d %H:%M}", str(one.outcome), _asked(one), one.detail or "–") for one in times]
    show_table(
        ("due (UTC)", "outcome", _what(found), "detail"), rows, f"{found.name} was not due yet; next: {_next(found)}"
    )


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


def _what(one: Any) -> str:
    return "campaign" if one.what.benchmark is None else "benchmark"


def _asked(time: Any) -> str:
    """The end of the id of what was asked for."""
    ident = time.campaign_id or time.benchmark_id
    return "–" if ident is None else short(ident)


def _next(one: Any) -> str:
    return "paused" if one.next_at is None else f"{one.next_at:%Y-%m-%d %H:%M} UTC"


def _last(one: Any) -> str:
    return "–" if one.last is None else f"{one.last.outcome} {ago(one.last.due_at)}"


def _say(one: Any, as_json: bool) -> None:
    show_json(one) if as_json else say(f"{one.name}: next {_next(one)}")
