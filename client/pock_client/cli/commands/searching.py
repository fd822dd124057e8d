"""`searches`: which parameters of a model to train, found by the service; `pock search` does it on this machine."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from ... import Client
from .. import completing
from ..console import (
    ago,
    milliseconds,
    note,
    plain,
    reference,
    say,
    share,
    short,
    show_json,
    show_pairs,
    show_table,
    size,
)
from ..faults import Refused, ServiceCommand, Status, program
from ..lookup import fits, is_id
from ..options import Json, Limit, Profile, Timeout, Wait
from ..session import connected, patient
from ..watching import labelled, look_at_build, wait_for_all
from .building import model_meant, recipe_meant
from .pushing import push_dataset

searches_app = typer.Typer(
    name="searches", no_args_is_help=True, help="Find which parameters to train, by what devices may take."
)
_MOST = 10_000
_TITLES = ("search", "model", "data", "target", "state", "recipe", "peak", "step", "asked for")
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?) *(B|[KMG]i?B|)", re.ASCII | re.IGNORECASE)
_UNITS = {"K": 1, "M": 2, "G": 3}
Which = Annotated[str, typer.Argument(metavar="SEARCH", help="An id, its end, or a model's name: its newest search.")]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="An ONNX file, which is pushed, or a model's name or id.")]
Data = Annotated[
    str,
    typer.Option(
        "--data",
        metavar="DATASET",
        help="What will be trained on: a file, which is pushed, or a dataset's name.",
        autocompletion=completing.datasets,
    ),
]
EvalData = Annotated[
    str | None,
    typer.Option(
        "--eval-data",
        metavar="DATASET",
        help="What was held out, for `measured` and --confirm.",
        autocompletion=completing.datasets,
    ),
]
Base = Annotated[
    str | None,
    typer.Option("--recipe", metavar="RECIPE", help="Loss, optimizer and batch: a file, or a recipe's name."),
]
Memory = Annotated[
    str | None, typer.Option("--memory", metavar="SIZE", help="What the predicted peak may be, such as 64MiB.")
]
StepMs = Annotated[float | None, typer.Option("--step-ms", min=0.0, help="What one step may take.")]
Method = Annotated[
    str, typer.Option("--method", metavar="{fisher|measured|gradient}", help="How it is found what each brings.")
]
Channels = Annotated[
    str | None,
    typer.Option(
        "--channels",
        metavar="{activation|fisher|gradient|magnitude}",
        help="By what the channels are chosen that are trained of a weight; default: activation.",
    ),
]
Joules = Annotated[
    float | None, typer.Option("--energy", metavar="JOULES", min=0.0, help="What one step may take; needs --power.")
]
Power = Annotated[
    float | None,
    typer.Option("--power", metavar="WATTS", min=0.0, help="What the device draws while it trains: a run tells."),
]
Minutes = Annotated[float, typer.Option("--minutes", min=0.0, help="What finding contributions may take; --lr, again.")]
FindRates = Annotated[
    bool, typer.Option("--lr", help="Find learning rates, too: for all that is trained, then for each group.")
]
RateSteps = Annotated[
    int, typer.Option("--lr-steps", metavar="STEPS", min=1, help="Of each short training that --lr does.")
]
Prefer = Annotated[
    str, typer.Option("--prefer", metavar="{accuracy|memory|time|balanced}", help="Which of those within the limits.")
]
Ranks = Annotated[
    list[int] | None,
    typer.Option("--rank", metavar="R", help="Weights may have low-rank adapters instead, of this rank; repeatable."),
]
Try = Annotated[
    bool, typer.Option("--try", help="Train what else fits, too, each at its best learning rates, and take the best.")
]
Recompute = Annotated[
    bool | None,
    typer.Option(
        "--recompute/--no-recompute",
        help="Whether what fits because forward nodes are computed twice counts, too.",
        show_default="where --memory is given",
    ),
]
MicroBatches = Annotated[
    bool | None,
    typer.Option(
        "--micro-batches/--no-micro-batches",
        help="Whether what fits because a step takes its samples in micro-batches counts, too.",
        show_default="where --memory is given and that trains the same",
    ),
]
Confirm = Annotated[
    int, typer.Option("--confirm", metavar="STEPS", min=0, help="Train the recipe and usual ones so long, and compare.")
]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="RECIPE.yaml", help="Write the recipe here, too.")
]
Report = Annotated[
    Path | None, typer.Option("--report", metavar="R.html", help="Write the page here that says why each layer is in.")
]


@searches_app.command("create", cls=ServiceCommand)
def create_search(
    context: typer.Context,
    model: Model,
    data: Data,
    target: Annotated[str, typer.Option("--target", metavar="T", help="A target of `targets`.")],
    eval_data: EvalData = None,
    recipe: Base = None,
    memory: Memory = None,
    step_ms: StepMs = None,
    energy: Joules = None,
    power: Power = None,
    method: Method = "fisher",
    channels: Channels = None,
    prefer: Prefer = "accuracy",
    rank: Ranks = None,
    minutes: Minutes = 30.0,
    lr: FindRates = False,
    lr_steps: RateSteps = 60,
    tries: Try = False,
    recompute: Recompute = None,
    micro_batches: MicroBatches = None,
    confirm: Confirm = 0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of all that is drawn.")] = 0,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="Default: the target's cores.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Of the recipe; default: the model's.")] = None,
    priority: Annotated[int, typer.Option("--priority", min=-10, max=10, help="Higher ones come first.")] = 0,
    output: Output = None,
    report: Report = None,
    wait: Wait = True,
    timeout: Timeout = None,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Find which parameters of a model to train within limits; the service keeps the recipe beside the model."""
    if not wait and (output or report):
        raise typer.BadParameter("--output and --report go with --wait; `searches download` fetches them later")
    limits = {"memory_bytes": None if memory is None else _bytes_of(memory), "step_ms": step_ms, "joules": energy}
    ways = {"watts": power, "method": method, "channels": channels, "prefer": prefer, "tries": tries or None}
    ways |= {"lr_steps": lr_steps if lr or tries else None, "recompute": recompute, "micro_batches": micro_batches}
    others = {"minutes": minutes, "confirm": confirm, "seed": seed, "threads": threads, "priority": priority}
    options: dict[str, Any] = {**limits, **ways, **others, "ranks": rank or None, "name": name}
    with connected(profile) as client:
        things = {
            "model": model_meant(client, model),
            "dataset": _dataset(client, data),
            "eval_dataset": None if eval_data is None else _dataset(client, eval_data),
            "recipe": None if recipe is None else recipe_meant(client, recipe),
        }
        made = client.searches.create(target=target, **things, **options)
    if wait:
        made = _waited(context, made, timeout, profile)
        if made.state == "succeeded":
            with connected(profile) as client:
                _fetch(client, made, output, report)
    _show(context, made, as_json=json)
    if wait and made.state != "succeeded":
        raise typer.Exit(Status.FAILED)


def _waited(context: typer.Context, made: Any, timeout: float | None, profile: str | None) -> Any:
    """The search once it is over."""
    after = f"it goes on: `{program(context)} searches list` shows it, the same command waits for it again"
    things = labelled([made], lambda one: f"{one.model.name} for {one.target}")
    with patient(profile) as client:
        (made,) = wait_for_all(things, client.searches.get, look_at_build, timeout, after)
    return made


@searches_app.command("list", cls=ServiceCommand)
def list_searches(
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="Only of this model.", show_default=False)
    ] = None,
    state: Annotated[str | None, typer.Option("--state", help="Such as queued, running, succeeded.")] = None,
    limit: Limit = 50,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """List searches, newest first."""
    with connected(profile) as client:
        model_id = None if model is None else client.models.find(model).id
        found = list(islice(client.searches.list(model_id=model_id, state=state), limit))
    if json:
        show_json({"items": plain(found)})
    else:
        show_table(_TITLES, map(_row, found), "no searches; `searches create MODEL --data D --target T` begins one")


@searches_app.command("show", cls=ServiceCommand)
def show_search(context: typer.Context, search: Which, profile: Profile = None, json: Json = False) -> None:
    """Show what a search found, beside training everything."""
    with connected(profile) as client:
        found = _meant(client, search)
    _show(context, found, as_json=json)


@searches_app.command("download", cls=ServiceCommand)
def download_search(
    search: Which,
    output: Output = None,
    report: Report = None,
    result: Annotated[
        Path | None, typer.Option("--result", metavar="R.json", help="Write all that was found here, as JSON.")
    ] = None,
    profile: Profile = None,
) -> None:
    """Fetch what a search found: the recipe, the page that says why, all of it as JSON."""
    if not (output or report or result):
        raise typer.BadParameter("say what to fetch: -o RECIPE.yaml, --report R.html or --result R.json")
    with connected(profile) as client:
        found = _meant(client, search)
        _fetch(client, found, output, report, result)
    for path in (output, report, result):
        if path is not None:
            say(path)


@searches_app.command("cancel", cls=ServiceCommand)
def cancel_search(search: Which, profile: Profile = None) -> None:
    """Cancel a search; the same one, asked for again, goes on from what it had found."""
    with connected(profile) as client:
        found = client.searches.cancel(_meant(client, search).id)
    say(f"the search {short(found.id)} is {found.state}")


def _dataset(client: Client, word: str) -> Any:
    """The dataset of this name or id; a file is pushed."""
    return push_dataset(client, Path(word)) if Path(word).is_file() else client.datasets.find(word)


def _bytes_of(text: str) -> int:
    """`64MiB` as a number of bytes."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"a size is such as 64MiB, 1.5GiB or 800MB, not '{text}'", param_hint="--memory")
    number, unit = found.groups()
    base = 1024 if "i" in unit.lower() else 1000
    return int(float(number) * base ** _UNITS.get(unit[:1].upper(), 0))


def _meant(client: Client, word: str) -> Any:
    """The search of this id or its end, or else the newest of a model of this name. Refused where there is none."""
    if is_id(word):
        return client.searches.get(word.lower())
    listed = islice(client.searches.list(), _MOST)
    found = next((one for one in listed if fits(word, one, lambda one: (one.model.name, one.name))), None)
    if found is None:
        raise Refused(f"no search is called '{word}'; `searches list` lists all")
    return found


def _fetch(client: Client, one: Any, output: Path | None, report: Path | None, result: Path | None = None) -> None:
    """Write what a search found to files. Refused where the recipe was deleted."""
    if output is not None:
        if one.state == "succeeded" and one.recipe_version is None:
            raise Refused("the recipe that was found is deleted")
        if one.recipe_version is None:
            raise Refused(f"this search is {one.state}: it has no recipe")
        output.write_text(client.recipes.get(one.recipe_version.id).text, "utf-8")
    if report is not None:
        client.searches.report(one, report)
    if result is not None:
        client.searches.result(one, result)


def _row(one: Any) -> tuple[str, ...]:
    """A search under `_TITLES`."""
    recipe = "–" if one.recipe_version is None else reference(one.recipe_version)
    told = (None, None) if one.found is None else (one.found.peak_bytes, one.found.step_ms)
    names = (reference(one.model), reference(one.dataset), one.target, str(one.state), recipe)
    return (short(one.id), *names, size(told[0]), milliseconds(told[1]), ago(one.created_at))


def _show(context: typer.Context, one: Any, *, as_json: bool) -> None:
    """A search as it stands."""
    if as_json:
        show_json(one)
    else:
        show_table(_TITLES, [_row(one)], "")
        if one.found is not None:
            show_pairs(_beside_full(one.found))
        if one.recipe_version is not None:
            command = f"{program(context)} build {reference(one.model)} --recipe {reference(one.recipe_version)}"
            note(f"build it: {command} --target {one.target}")
    if one.failure is not None:
        note(f"{one.model.name} for {one.target}: {one.failure.detail} ({one.failure.code})")


def _beside_full(found: Any) -> dict[str, str]:
    """What a search found, with what training everything takes."""
    rows = {
        "peak": f"{size(found.peak_bytes)} of {size(found.full_peak_bytes)}",
        "step": f"{milliseconds(found.step_ms)} of {milliseconds(found.full_step_ms)}",
        "bound": f"no scheme that fits brings over {share(found.gap)} more, if contributions and costs add",
    }
    if found.joules is not None:
        rows["energy"] = f"{found.joules:.3g} J a step"
    if found.learning_rates is not None:
        rows["learning rates"] = ", ".join(f"{group} {rate:g}" for group, rate in found.learning_rates.items())
    if found.accuracy is not None:
        rows["accuracy"] = f"{share(found.accuracy)}; training everything {share(found.full_accuracy)}"
    return rows
