"""`campaign`: builds on many devices with several seeds, in an order and under rules, and one table of results."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from ... import Client
from .. import completing
from ..campaign_orders import read_file, resolved
from ..console import ago, note, number, plain, say, share, short, show_json, show_pairs, show_table, size
from ..faults import Refused, ServiceCommand, Status, program
from ..lookup import chosen, fits
from ..options import Json, Limit, Names, Profile, Timeout, Wait
from ..session import connected, patient
from ..watching import Seen, wait_for_all
from .running import EvalEvery, EvalShare, Patience, Retry, held_out_of, retries_of

_MOST = 1000
campaign_app = typer.Typer(
    name="campaign", no_args_is_help=True, help="Run builds on many devices with several seeds, and see the results."
)
Campaign = Annotated[
    str,
    typer.Argument(
        metavar="CAMPAIGN",
        help="A name, which means the newest; an id or its end.",
        show_default=False,
        autocompletion=completing.campaigns,
    ),
]
By = Annotated[bool, typer.Option("--by-device", help="A row for each device, instead of one for all of a target.")]

FileOption = Annotated[
    Path | None, typer.Argument(metavar="[FILE.yaml]", help="What to run, as a file; options win.", exists=True)
]
BuildOption = Annotated[
    list[str] | None,
    typer.Option("--build", metavar="BUILD", help="May be said again.", autocompletion=completing.builds),
]
ModelOption = Annotated[
    str | None, typer.Option("--model", help="Instead of builds.", autocompletion=completing.models)
]
RecipeOption = Annotated[
    list[str] | None,
    typer.Option("--recipe", help="With --model; may be said again.", autocompletion=completing.recipes),
]
TargetOption = Annotated[list[str] | None, typer.Option("--target", help="With --model; may be said again.")]
OnOption = Annotated[
    str | None,
    typer.Option(
        "--on", metavar="SELECTOR", help="Devices, such as 'pool=kitchen'.", autocompletion=completing.devices
    ),
]
DeviceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--device",
        metavar="DEVICE",
        help="Only this one, by name or id; may be said again.",
        autocompletion=completing.devices,
    ),
]
DataOption = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="DATASET",
        help="A dataset's name, id, or local:NAME on each device.",
        autocompletion=completing.datasets,
    ),
]
EvalDataOption = Annotated[
    str | None,
    typer.Option("--eval-data", metavar="DATASET", help="Likewise.", autocompletion=completing.datasets),
]
PerDeviceOption = Annotated[int | None, typer.Option("--per-device", min=1, help="Runs at once of one device.")]
CanaryOption = Annotated[int | None, typer.Option("--canary", metavar="N", min=1, help="So many devices first.")]
StopFailedOption = Annotated[
    int | None, typer.Option("--stop-failed", metavar="N", min=1, help="Stop when so many failed.")
]
StopShareOption = Annotated[
    float | None, typer.Option("--stop-share", metavar="PART", min=0, max=1, help="Stop above this part of all.")
]
DeadlineOption = Annotated[int | None, typer.Option("--deadline", metavar="SECONDS", min=1, help="Of all of it.")]


@campaign_app.command("create", cls=ServiceCommand)
def create(
    context: typer.Context,
    file: FileOption = None,
    name: Annotated[str | None, typer.Option("--name", help="What to call it.")] = None,
    build: BuildOption = None,
    model: ModelOption = None,
    recipe: RecipeOption = None,
    target: TargetOption = None,
    on: OnOption = None,
    device: DeviceOption = None,
    data: DataOption = None,
    eval_data: EvalDataOption = None,
    eval_share: EvalShare = None,
    eval_every: EvalEvery = None,
    patience: Patience = None,
    entry: Annotated[str | None, typer.Option("--entry", help="train (the default), eval or bench.")] = None,
    steps: Annotated[int | None, typer.Option("--steps", min=1, help="Of each run.")] = None,
    seeds: Annotated[str | None, typer.Option("--seeds", metavar="0,1,…", help="A run for each.")] = None,
    priority: Annotated[int | None, typer.Option("--priority", min=-100, max=100)] = None,
    parallelism: Annotated[int | None, typer.Option("--parallelism", min=1, help="Runs at once.")] = None,
    per_device: PerDeviceOption = None,
    canary: CanaryOption = None,
    canary_wait: Annotated[int, typer.Option("--canary-wait", metavar="SECONDS", min=0)] = 0,
    stop_failed: StopFailedOption = None,
    stop_share: StopShareOption = None,
    deadline: DeadlineOption = None,
    retry: Retry = None,
    wait: Wait = True,
    timeout: Timeout = None,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Run builds on every device of their targets that matches, with each seed."""
    told: dict[str, Any] = {
        "name": name,
        "builds": build,
        "model": model,
        "recipes": recipe,
        "targets": target,
        "on": on,
        "devices": device,
        "dataset": data,
        "eval_dataset": eval_data,
        "held_out": held_out_of(eval_share, eval_every, patience),
        "entry": entry,
        "steps": steps,
        "seeds": None if seeds is None else [_seed(one) for one in seeds.split(",")],
        "priority": priority,
        "parallelism": parallelism,
        "per_device": per_device,
        "canary": None if canary is None else {"devices": canary, "wait_seconds": canary_wait},
        "stop": _rules(stop_failed, stop_share),
        "deadline": deadline,
        "retries": retries_of(retry),
    }
    order = ({} if file is None else read_file(file)) | {k: v for k, v in told.items() if v not in (None, [])}
    with connected(profile) as client:
        made = client.campaigns.create(**resolved(client, order))
    _note_missing(made.missing_targets)
    _follow(context, made, wait=wait, timeout=timeout, profile=profile, as_json=json)


def _note_missing(targets: Sequence[str] | None) -> None:
    if targets:
        note(f"left out: no device that was chosen is of target {', '.join(targets)}")


@campaign_app.command("list", cls=ServiceCommand)
def list_campaigns(
    names: Names = None,
    state: Annotated[str | None, typer.Option("--state", help="Such as running, paused, failed.")] = None,
    limit: Limit = 50,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """List campaigns, newest first."""
    with connected(profile) as client:
        found = chosen(client.campaigns.list(state=state), names, _names, limit)
    if json:
        show_json({"items": plain(found)})
        return
    rows = [(short(one.id), one.name, str(one.state), _counted(one), ago(one.created_at)) for one in found]
    show_table(("campaign", "name", "state", "cells", "asked for"), rows, "no campaigns; `campaign create` makes one")


@campaign_app.command("show", cls=ServiceCommand)
def show(
    context: typer.Context,
    campaign: Campaign,
    wait: Annotated[bool, typer.Option("--wait", help="Follow it until it is over.")] = False,
    timeout: Timeout = None,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Show how far a campaign is."""
    with connected(profile) as client:
        found = _find(client, campaign)
    _follow(context, found, wait=wait, timeout=timeout, profile=profile, as_json=json)


@campaign_app.command("results", cls=ServiceCommand)
def results(
    campaign: Campaign,
    by_device: By = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print lines for a spreadsheet.")] = False,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Show what was measured: medians over devices and seeds, and how far the 10th or 90th percentile is away."""
    by = "device" if by_device else "target"
    with connected(profile) as client:
        found = _find(client, campaign)
        if csv:
            print(client.campaigns.results_csv(found.id, by), end="")
            return
        table = client.campaigns.results(found.id, by)
    if json:
        show_json(table)
    else:
        _show_results(table)


@campaign_app.command("pause", cls=ServiceCommand)
def pause(campaign: Campaign, profile: Profile = None, json: Json = False) -> None:
    """Ask for no further runs; those that were asked for go on."""
    with connected(profile) as client:
        _say(client.campaigns.pause(_find(client, campaign).id), json)


@campaign_app.command("resume", cls=ServiceCommand)
def resume(campaign: Campaign, profile: Profile = None, json: Json = False) -> None:
    """Go on after a pause."""
    with connected(profile) as client:
        _say(client.campaigns.resume(_find(client, campaign).id), json)


@campaign_app.command("cancel", cls=ServiceCommand)
def cancel_campaign(campaign: Campaign, profile: Profile = None, json: Json = False) -> None:
    """End a campaign, and its runs."""
    with connected(profile) as client:
        _say(client.campaigns.cancel(_find(client, campaign).id), json)


def _seed(text: str) -> int:
    if not text.strip().isdecimal():
        raise typer.BadParameter(f"'{text}' is no seed; it looks like 0,1,2", param_hint="--seeds")
    return int(text)


def _rules(failed: int | None, failed_share: float | None) -> dict[str, float] | None:
    rules = {"failed": failed, "failed_share": failed_share}
    return {name: value for name, value in rules.items() if value is not None} or None


def _names(one: Any) -> tuple[str, ...]:
    return (one.name,)


def _find(client: Client, word: str) -> Any:
    """The campaign of this id or its end, or the newest of this name. Refused where there is none."""
    found = next((one for one in islice(client.campaigns.list(), _MOST) if fits(word, one, _names)), None)
    if found is None:
        raise Refused(f"no campaign is called '{word}'; `campaign list` lists all")
    return found


def _counted(one: Any) -> str:
    """Its cells in words: `12/20, 1 failed`."""
    cells = one.cells
    bad = [f"{getattr(cells, name)} {name}" for name in ("failed", "cancelled", "skipped") if getattr(cells, name)]
    return ", ".join((f"{cells.total - cells.pending - cells.running}/{cells.total}", *bad))


def _look(one: Any) -> Seen:
    done = one.cells.total - one.cells.pending - one.cells.running
    return Seen(str(one.state), done / max(one.cells.total, 1), f"{_counted(one)}, {one.cells.running} running")


def _follow(
    context: typer.Context, found: Any, *, wait: bool, timeout: float | None, profile: str | None, as_json: bool
) -> None:
    """Show the campaign as it stands, or once it is over; ends with FAILED if it did not succeed."""
    table = None
    if wait:
        with patient(profile) as client:
            later = f"it goes on; `{program(context)} campaign show {short(found.id)} --wait` follows it"
            (found,) = wait_for_all({found.name: found}, client.campaigns.get, _look, timeout, later)
            table = client.campaigns.results(found.id)
    if as_json:
        show_json({"campaign": plain(found), "results": None if table is None else plain(table)})
    elif table is None:
        pairs = {"campaign": found.name, "id": found.id, "state": found.state, "cells": _counted(found)}
        show_pairs({**pairs, "asked for": ago(found.created_at)})
    else:
        _show_results(table)
    if found.failure is not None:
        note(f"{found.name}: {found.failure.detail} ({found.failure.code})")
    if wait and found.state != "succeeded":
        raise typer.Exit(Status.FAILED)


def _say(campaign: Any, as_json: bool) -> None:
    show_json(campaign) if as_json else say(f"{campaign.name}: {campaign.state}")


def _show_results(table: Any) -> None:
    titles = ("build", "target", "device", "done", "failed", "step ms", "memory", "J/step", "loss", "accuracy")
    rows = [
        (
            one.build,
            one.target,
            one.device_name or "all",
            f"{one.cells.succeeded}/{one.cells.total}",
            ", ".join(f"{count} {kind}" for kind, count in one.failures.items()) or "–",
            _spread(one.step_ms, number),
            _spread(one.peak_bytes, size),
            _spread(one.joules_per_step, number),
            _spread(one.loss, number),
            _spread(one.accuracy, share),
        )
        for one in table.rows
    ]
    show_table(titles, rows, "nothing yet")


def _spread(found: Any, words: Any) -> str:
    """`0.024 ±8%`: the median, and how far the 10th or 90th percentile is from it."""
    if found is None:
        return "–"
    away = max(found.high - found.median, found.median - found.low)
    return f"{words(found.median)} ±{away / found.median:.0%}" if away > 0 and found.median > 0 else words(found.median)
