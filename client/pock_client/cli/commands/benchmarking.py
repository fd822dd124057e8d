"""`bench`: builds measured on devices, with a verdict, and held against a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from ... import Client
from ...errors import ServiceError
from .. import completing
from ..benchmarks import share_of, show_against_baseline, verdict_of
from ..comparison import measured, show_comparison
from ..console import note, plain, short, show_json, show_table
from ..faults import Refused, Status, program
from ..lookup import is_id
from ..options import Json, Profile, Timeout, Wait, Yes
from ..session import connected, patient
from ..watching import Seen, labelled, wait_for_all
from .running import Builds, Deadline, Order, Selector, Threads, confirmed, matched

_CERTAIN = 0.05
"""A slowdown fails only where the rank test's p is at most this."""

Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="DATASET",
        help="Default: made-up numbers, which take as long.",
        autocompletion=completing.datasets,
    ),
]
Steps = Annotated[int, typer.Option("--steps", min=1, help="Measured steps of each repeat.")]
Warmup = Annotated[int, typer.Option("--warmup", min=0, help="Steps of each repeat that do not count.")]
Repeats = Annotated[int, typer.Option("--repeats", min=1, max=50, help="Processes; from 6 on with a verdict.")]
CoolDown = Annotated[
    int, typer.Option("--cool-down", metavar="SECONDS", min=0, help="Longest pause between two repeats.")
]
Baseline = Annotated[
    str | None,
    typer.Option(
        "--baseline", metavar="REF", help="A benchmark's id, or a build such as NAME:release: its last there."
    ),
]


def bench(
    context: typer.Context,
    builds: Builds,
    on: Selector,
    data: Data = None,
    steps: Steps = 50,
    warmup: Warmup = 3,
    repeats: Repeats = 7,
    cool_down: CoolDown = 0,
    threads: Threads = None,
    deadline: Deadline = None,
    baseline: Baseline = None,
    fail_slower: Annotated[
        str | None,
        typer.Option("--fail-slower", metavar="SHARE", help="End with 3 if it is surely so much slower: 5%."),
    ] = None,
    yes: Yes = False,
    wait: Wait = True,
    timeout: Timeout = None,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Measure steps on every device that matches, several times over, and say whether the times can be trusted."""
    allowed = None if fail_slower is None else share_of(fail_slower)
    if allowed is not None and (baseline is None or not wait):
        raise typer.BadParameter("it needs --baseline, and to wait", param_hint="--fail-slower")
    options = measurement(steps, warmup, repeats, cool_down) | {"threads": threads, "deadline": deadline}
    order = Order(builds, on, data or "", options, yes, wait, timeout)
    with connected(profile) as client:
        made, refused = _ask(client, order, data, baseline)
    runs: list[Any] = []
    if wait and made:
        with patient(profile) as client:
            made = _wait(context, client, made, timeout)
            runs = [client.runs.get(one.run_id) for one in made]
    _show(made, runs, as_json=json)
    if refused:
        raise typer.Exit(Status.REFUSED)
    if wait and (any(one.state != "succeeded" for one in made) or _slower(made, allowed)):
        raise typer.Exit(Status.FAILED)


def measurement(steps: int, warmup: int, repeats: int, cool_down: int) -> dict[str, Any]:
    """The options of a benchmark that every one has."""
    return {"steps": steps, "warmup_steps": warmup, "repeats": repeats, "cool_down": cool_down}


def orders(client: Client, order: Order, data: str | None, baseline: str | None) -> list[dict[str, Any]]:
    """What `client.benchmarks.create` is to be told for each build on each device."""
    pairs = matched(client, order)
    dataset = None if data is None else client.datasets.find(data).id
    bases = {device.id: _baseline(client, baseline, device) for _, device in pairs}
    return [
        {"build": build, "device": device, "dataset": dataset, "baseline": bases[device.id], **order.options}
        for build, device in pairs
    ]


def _ask(client: Client, order: Order, data: str | None, baseline: str | None) -> tuple[list[Any], int]:
    """The benchmarks that were asked for, and how many were refused."""
    wanted = orders(client, order, data, baseline)
    confirmed(len(wanted), "benchmarks", yes=order.yes)
    made, refused = list[Any](), 0
    for one in wanted:
        try:
            made.append(client.benchmarks.create(**one))
        except ServiceError as error:
            refused += 1
            note(f"{one['build'].name} on {one['device'].name} is refused: {error}")
    return made, refused


def _baseline(client: Client, word: str | None, device: Any) -> str | None:
    """The benchmark that is meant: this one, or the last that succeeded of this build on the device."""
    if word is None:
        return None
    if is_id(word):
        try:
            return str(client.benchmarks.get(word.lower()).id)
        except ServiceError as error:
            if error.status != 404:
                raise
    build = client.builds.find(word)
    newest = client.benchmarks.list(build_id=build.id, device_id=device.id, state="succeeded")
    found = next(iter(newest), None)
    if found is None:
        raise Refused(f"'{word}' has no benchmark on {device.name} yet; `bench {word} --on` it first")
    return str(found.id)


def _wait(context: typer.Context, client: Client, made: Sequence[Any], timeout: float | None) -> list[Any]:
    """The benchmarks once they are over."""
    name, things = program(context), labelled(made, lambda one: f"{one.build_name} on {one.device_name}")
    after = f"it goes on; `{name} logs RUN -f` follows it, `{name} cancel RUN` ends it"
    if len(made) == 1:
        after = after.replace("RUN", short(made[0].run_id))
    return wait_for_all(things, client.benchmarks.get, lambda one: Seen(str(one.state)), timeout, after)


def _show(made: Sequence[Any], runs: Sequence[Any], *, as_json: bool) -> None:
    if as_json:
        show_json({"benchmarks": plain(made), "runs": plain(runs)})
        return
    if not runs:
        rows = [(short(one.id), f"{one.build_name}:v{one.build_version}", one.device_name, one.state) for one in made]
        show_table(("benchmark", "build", "device", "state"), rows, "nothing is measured")
        return
    show_comparison([measured(one) for one in runs])
    for one in made:
        note(f"{one.build_name} on {one.device_name}: {verdict_of(one)} (benchmark {short(one.id)})")
    show_against_baseline([one for one in made if one.comparison is not None])


def _slower(made: Sequence[Any], allowed: float | None) -> bool:
    """Whether one is slower than its baseline by more than is allowed, and surely so."""
    if allowed is None:
        return False
    found = [one for one in made if one.comparison is not None]
    slow = [one for one in found if one.comparison.ratio > 1 + allowed and one.comparison.p_value <= _CERTAIN]
    for one in slow:
        text = f"{one.build_name} on {one.device_name} takes {one.comparison.ratio:.2f} times as long as its baseline"
        note(f"{text}; {allowed:.3g} more is allowed")
    return bool(slow)
