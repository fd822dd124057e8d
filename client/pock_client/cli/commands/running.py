"""`run`, `runs`: training on devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any

import typer

from ... import Client
from ...errors import ServiceError
from ...references import local_name
from ...schema import FailureClass, WeightsForm
from .. import completing
from ..console import (
    ago,
    note,
    number,
    plain,
    reference_of_run,
    share,
    short,
    show_json,
    show_table,
    title_of_run,
    visible,
)
from ..faults import Refused, Status, program
from ..lookup import Kind, chosen, find_build_or_run, find_builds, find_runs, names_of_run
from ..options import Json, Limit, Names, Profile, Timeout, Wait, Yes
from ..session import connected, patient
from ..watching import labelled, look_at_run, wait_for_all

_MOST = 100
"""Runs that one command asks for."""
_DIGEST_LENGTH = 64
_MANY = 10
"""More are asked about."""

Builds = Annotated[
    list[str],
    typer.Argument(
        metavar="BUILD",
        help="Builds or models, by name, glob or id.",
        show_default=False,
        autocompletion=completing.builds,
    ),
]
Selector = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="SELECTOR",
        help="Devices, such as 'pool=kitchen,ram>=2GiB' or 'pi-*'.",
        autocompletion=completing.devices,
    ),
]
Data = Annotated[
    str,
    typer.Option(
        "--data",
        metavar="DATASET",
        help="A dataset's name, NAME:v3, id, or local:NAME on the device.",
        autocompletion=completing.datasets,
    ),
]
EvalData = Annotated[
    str | None, typer.Option("--eval-data", metavar="DATASET", help="Evaluate on it before and after training.")
]
EvalShare = Annotated[
    float | None,
    typer.Option("--eval-share", metavar="SHARE", help="Hold out so much of each class of the data, and evaluate it."),
]
EvalEvery = Annotated[int | None, typer.Option("--eval-every", min=1, help="Steps between; default: each epoch.")]
Patience = Annotated[
    int | None, typer.Option("--patience", min=1, help="Stop after so many evaluations without a better one.")
]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Default: those of the build.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of the order of samples.")]
Retry = Annotated[
    list[str] | None,
    typer.Option(
        "--retry", metavar="CLASS=N", help="Try again so often, such as transient=3 (the default); may be said again."
    ),
]
After = Annotated[
    str | None,
    typer.Option("--after", metavar="BUILD|RUN", help="Wait until it has succeeded; a build may be the run's own."),
]
Deadline = Annotated[
    int | None, typer.Option("--deadline", metavar="SECONDS", min=1, help="Longest time of each run on its device.")
]


@dataclass(frozen=True)
class Order:
    """What is run wherever it fits: the fields of a run but for its build and device."""

    builds: Sequence[str]
    on: str
    data: str
    options: dict[str, Any]
    yes: bool
    wait: bool
    timeout: float | None
    after: str | None = None


def run(
    context: typer.Context,
    builds: Builds,
    on: Selector,
    data: Data,
    eval_data: EvalData = None,
    eval_share: EvalShare = None,
    eval_every: EvalEvery = None,
    patience: Patience = None,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Training steps.")] = 100,
    seed: Seed = 0,
    threads: Threads = None,
    save_weights: Annotated[
        bool, typer.Option("--save-weights", help="Bring the trained weights back: `download RUN` fetches them.")
    ] = False,
    weights_form: Annotated[
        WeightsForm,
        typer.Option("--weights-form", help="How they travel: what changed of them, where the agent can, or whole."),
    ] = WeightsForm.delta,
    weights_of: Annotated[
        str | None,
        typer.Option("--weights-of", metavar="RUN", help="Begin with what this run trained, or a digest's weights."),
    ] = None,
    kernels: Annotated[bool, typer.Option("--kernels", help="Time each kernel, too; steps take a bit longer.")] = False,
    deadline: Deadline = None,
    retry: Retry = None,
    after: After = None,
    yes: Yes = False,
    wait: Wait = True,
    timeout: Timeout = None,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Train on every device that matches, each with the newest build for its target."""
    options = {"entry": "train", "steps": steps, "seed": seed, "threads": threads, "save_weights": save_weights}
    options |= {
        "profile": kernels,
        "deadline": deadline,
        "eval_dataset": eval_data,
        "held_out": held_out_of(eval_share, eval_every, patience),
        "weights_of": weights_of,
        "weights_form": weights_form,
        "retries": retries_of(retry),
    }
    order = Order(builds, on, data, options, yes, wait, timeout, after)
    _run(context, order, profile, as_json=json)


def runs(
    names: Names = None,
    state: Annotated[str | None, typer.Option("--state", help="Such as queued, running, succeeded.")] = None,
    tries: Annotated[bool, typer.Option("--tries", help="Those that were tried again, too.")] = False,
    limit: Limit = 50,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """List runs, newest first; a name is that of a build."""
    with connected(profile) as client:
        all_runs = client.runs.list(state=state, retried=None if tries else "false")
        found = chosen(all_runs, names, names_of_run, limit)
        if json:
            show_json({"items": plain(found)})
            return
        rows = [(short(one.id), reference_of_run(one), *_result(one), ago(one.created_at)) for one in found]
    show_table(("run", "build", *_TITLES, "asked for"), rows, "no runs; `run BUILD --on SELECTOR --data D` makes one")


_TITLES = ("device", "entry", "state", "steps", "loss", "accuracy", "step ms")


def _result(one: Any) -> tuple[str, ...]:
    """What became of a run, under `_TITLES`."""
    report = one.report
    main = None if report is None else (report.train or report.eval_after or report.eval_before)
    losses = [] if main is None or not main.loss else main.loss
    loss = " → ".join(number(value) for value in dict.fromkeys((*losses[:1], *losses[-1:]))) or "–"
    before, after = (None, None) if report is None else (report.eval_before, report.eval_after)
    accuracy = share(after.accuracy) if after else "–"
    if before and after:
        accuracy = f"{share(before.accuracy)} → {accuracy}"
    times = None if main is None or main.step_ms is None else main.step_ms.median
    return one.device_name, str(one.entry), str(one.state), str(one.steps), loss, accuracy, number(times)


def _run(context: typer.Context, order: Order, profile: str | None, *, as_json: bool) -> None:
    """Ask for the runs and, if it is wanted, wait for them."""
    with connected(profile) as client:
        after = _awaited(client, order.after)
        pairs = matched(client, order)
        confirmed(len(pairs), "runs", yes=order.yes)
        dataset = _dataset(client, order.data)
        options = {name: value for name, value in order.options.items() if value is not None} | after
        if "eval_dataset" in options:
            options["eval_dataset"] = _dataset(client, options["eval_dataset"])
        if "weights_of" in options:
            options["weights_of"] = _origin(client, options["weights_of"])
        made, refused = list[Any](), 0
        for build, device in pairs:
            try:
                made.append(client.runs.create(build=build.id, device=device.id, dataset=dataset, **options))
            except ServiceError as error:
                refused += 1
                note(f"{build.name} on {device.name} is refused: {error}")
    if order.wait and made:
        with patient(profile) as client:
            word, name = short(made[0].id) if len(made) == 1 else "RUN", program(context)
            later = f"it goes on; `{name} logs {word} -f` follows it, `{name} cancel {word}` ends it"
            things = labelled(made, title_of_run)
            made = wait_for_all(things, client.runs.last_try, look_at_run, order.timeout, later)
    _show(context, made, order, as_json=as_json)
    if refused:
        raise typer.Exit(Status.REFUSED)


def held_out_of(share: float | None, every: int | None, patience: int | None) -> dict[str, float] | None:
    """What the devices hold out of their data; None where nothing was said."""
    if share is None:
        if every is not None or patience is not None:
            option = "--eval-every" if patience is None else "--patience"
            raise typer.BadParameter("needs --eval-share", param_hint=option)
        return None
    if not 0 < share < 1:
        raise typer.BadParameter(f"{share:g} is not between 0 and 1, such as 0.2", param_hint="--eval-share")
    return {"share": share, "every": every or 0, "patience": patience or 0}


def retries_of(words: Sequence[str] | None) -> dict[str, int] | None:
    """How often to try again, by class of failure; None where nothing was said."""
    found: dict[str, int] = {}
    for word in words or ():
        kind, equals, count = word.partition("=")
        if kind not in list(FailureClass) or not equals or not count.isdecimal():
            detail = f"'{word}' is no CLASS=N; classes are {', '.join(FailureClass)}"
            raise typer.BadParameter(detail, param_hint="--retry")
        found[kind] = int(count)
    return found or None


def _awaited(client: Client, word: str | None) -> dict[str, str]:
    """The option of a run that waits for what the word means."""
    if word is None:
        return {}
    kind, thing = find_build_or_run(client, word)
    return {"after_build" if kind is Kind.BUILD else "after_run": thing.id}


def _origin(client: Client, weights_of: str) -> str:
    """The run that is meant, or a digest as it is given."""
    if len(weights_of) == _DIGEST_LENGTH:
        return weights_of
    found = find_runs(client, [weights_of])
    if len(found) != 1:
        raise Refused(f"'{weights_of}' is {len(found) or 'none'} of the runs; say with --weights-of the id of one")
    return str(found[0].id)


def _dataset(client: Client, word: str) -> str:
    """Its id; or the word for what each device keeps itself."""
    return client.datasets.find(word).id if local_name(word) is None else word


def confirmed(count: int, what: str, *, yes: bool) -> None:
    """Ask before many are asked for; raises Abort."""
    if count > _MANY and not yes:
        typer.confirm(f"ask for {count} {what}?", abort=True, err=True)


def matched(client: Client, order: Order) -> list[tuple[Any, Any]]:
    """Each device that matches with each thing to run there: the newest build of it for the device's target."""
    count = client.devices.count(order.on)  # a service that knows no selectors would list all devices, and no count
    if not count:
        raise Refused(f"no device matches '{order.on}'; `devices` lists all")
    if count > _MOST:
        raise Refused(f"'{order.on}' matches {count} devices, and at most {_MOST} are asked at once; narrow it down")
    devices = list(islice(client.devices.list(order.on), _MOST))
    built = find_builds(client, order.builds, None if order.after else "succeeded")
    pairs = [(build, device) for device in devices for build in built if build.target == device.target]
    for device in devices:
        if not any(device is one for _, one in pairs):
            note(f"left out {device.name}: nothing is built for its target, {device.target or 'which is not known'}")
    if len(pairs) > _MOST:
        raise Refused(f"that would be {len(pairs)} runs, and at most {_MOST} are asked for at once; narrow it down")
    if not pairs:
        targets = ", ".join(sorted({visible(build.target) for build in built}))
        raise Refused(f"none of these devices is of a target that this is built for ({targets})")
    return pairs


def _show(context: typer.Context, made: Sequence[Any], order: Order, *, as_json: bool) -> None:
    """The runs as they stand; ends with FAILED if one that was waited for did not succeed."""
    if as_json:
        show_json({"runs": plain(made)})
    else:
        show_table(
            ("run", "build", *_TITLES), [(short(one.id), reference_of_run(one), *_result(one)) for one in made], ""
        )
    if not order.wait:
        return
    for one in made:
        if one.failure is not None:
            note(f"{title_of_run(one)}: {one.failure.detail} ({one.failure.code})")
    bad = sum(one.state != "succeeded" for one in made)
    if bad:
        raise typer.Exit(Status.FAILED)
    if len(made) > 1 and not as_json:
        note(f"side by side: {program(context)} compare {' '.join(short(one.id) for one in made)}")
