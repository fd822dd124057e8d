"""`build`, `builds`: training programs for devices, made by the service."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer

from ... import Client
from ..console import ago, milliseconds, note, plain, reference, short, show_json, show_table, size
from ..faults import Refused, Status, program
from ..lookup import chosen, names_of_build
from ..options import Json, Limit, Names, Profile, Timeout, Wait
from ..session import connected, patient
from ..watching import labelled, look_at_build, wait_for_all
from .pushing import push_model
from .tuning import known_in_words, wait_until_tuned

_TITLES = ("build", "name", "target", "state", "artifact", "planned", "compiled in")


def build(
    context: typer.Context,
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL", help="ONNX files, which are pushed, or models' names or ids.")
    ],
    recipe: Annotated[
        list[str], typer.Option("--recipe", metavar="RECIPE", help="A file, or a recipe's name; may be said again.")
    ],
    target: Annotated[
        list[str],
        typer.Option("--target", metavar="A,B", help="Targets with commas between, also globs; may be said again."),
    ],
    name: Annotated[str | None, typer.Option("--name", help="Of the builds; default: the model's.")] = None,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="Default: the target's cores.")] = None,
    priority: Annotated[int, typer.Option("--priority", min=-10, max=10, help="Higher ones come first.")] = 0,
    tune: Annotated[
        str, typer.Option("--tune", metavar="{off|fleet}", help="fleet: with what devices measured, or will measure.")
    ] = "off",
    wait_tuned: Annotated[
        bool, typer.Option("--wait-tuned", help="Wait until devices have tried what is unknown, then build again.")
    ] = False,
    wait: Wait = True,
    timeout: Timeout = None,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Build each model with each recipe for each target; what was built before is there at once."""
    if tune not in ("off", "fleet") or (wait_tuned and (tune == "off" or not wait)):
        raise typer.BadParameter("--tune is off or fleet, and --wait-tuned goes with --tune fleet and --wait")
    more: dict[str, Any] = {"threads": threads, "name": name, "priority": priority, "tune": tune}
    with connected(profile) as client:
        targets = _targets(client, target)
        recipes = [recipe_meant(client, word) for word in recipe]
        orders = [
            {"model": one.id, "recipe": steps, "target": where, **more}
            for one in [model_meant(client, word) for word in models]
            for steps in recipes
            for where in targets
        ]
        made = [client.builds.create(**order) for order in orders]
    if wait:
        with patient(profile) as client:
            after = f"the builds go on: `{program(context)} builds` shows them, the same command waits for them again"
            made = _finished(client, made, timeout, after)
            if wait_tuned and all(one.state == "succeeded" for one in made):
                wait_until_tuned(client, made, timeout, program(context))
                made = _finished(client, [client.builds.create(**order) for order in orders], timeout, after)
    _show(context, made, waited=wait, as_json=json)


def _finished(client: Client, made: Sequence[Any], timeout: float | None, after: str) -> list[Any]:
    """The builds once they are over."""
    things = labelled(made, lambda one: f"{one.name} for {one.target}")
    return wait_for_all(things, client.builds.get, look_at_build, timeout, after)


def builds(
    names: Names = None,
    state: Annotated[str | None, typer.Option("--state", help="Such as queued, running, succeeded.")] = None,
    target: Annotated[str | None, typer.Option("--target", help="Only of this target, or of a glob of them.")] = None,
    limit: Limit = 50,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """List builds, newest first; a name is the build's or its model's."""
    with connected(profile) as client:
        all_builds = client.builds.list(**({} if state is None else {"state": state}))
        of_target = (one for one in all_builds if target is None or fnmatchcase(one.target, target))
        found = chosen(of_target, names, names_of_build, limit)
    if json:
        show_json({"items": plain(found)})
        return
    rows = ((*_row(one), ago(one.created_at)) for one in found)
    show_table((*_TITLES, "asked for"), rows, "no builds; `build MODEL --recipe R --target T` makes one")


def model_meant(client: Client, word: str) -> Any:
    """The model of this name or id; a file is pushed."""
    return push_model(client, Path(word)) if Path(word).is_file() else client.models.find(word)


def recipe_meant(client: Client, word: str) -> Any:
    """The file of this name, or else the recipe that the service has of it."""
    return Path(word) if Path(word).is_file() else client.recipes.find(word)


def _targets(client: Client, words: Sequence[str]) -> list[str]:
    """The targets that the words mean, each once. Refused where one means none."""
    known = [target.name for target in client.targets.list()]
    found: dict[str, None] = {}
    for word in (part.strip() for one in words for part in one.split(",")):
        meant = [name for name in known if name == word or fnmatchcase(name, word)]
        if not meant:
            raise Refused(f"the service builds for no target '{word}'; it does for {', '.join(sorted(known))}")
        found.update(dict.fromkeys(meant))
    return list(found)


def _row(one: Any) -> tuple[str, ...]:
    """A build under `_TITLES`."""
    summary = one.summary
    seconds = None if summary is None else summary.compile_seconds
    return (
        short(one.id),
        reference(one),
        one.target,
        str(one.state),
        "–" if one.artifact_digest is None else one.artifact_digest[:12],
        size(None if summary is None else summary.predicted_peak_bytes),
        milliseconds(None if seconds is None else seconds * 1000),
    )


def _show(context: typer.Context, made: Sequence[Any], *, waited: bool, as_json: bool) -> None:
    """The builds as they stand; ends with FAILED if one that was waited for did not succeed."""
    if as_json:
        show_json({"builds": plain(made)})
    else:
        show_table(_TITLES, map(_row, made), "")
    for one in made:
        if one.failure is not None:
            note(f"{one.name} for {one.target}: {one.failure.detail} ({one.failure.code})")
        elif (told := known_in_words(one)) is not None:
            note(f"{one.name} for {one.target}: {told}")
    good = [one for one in made if one.state == "succeeded"]
    if good and not as_json:
        note(f"fetch an artifact: {program(context)} download {short(good[0].id)} -o {good[0].name}.pock")
    if waited and len(good) < len(made):
        raise typer.Exit(Status.FAILED)
