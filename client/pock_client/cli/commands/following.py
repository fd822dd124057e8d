"""`logs`, `cancel`: what a build or run does, and an end to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from ... import Client
from ...events import EvaluationEvent, LogEvent, StateEvent, StepsEvent
from .. import completing
from ..console import milliseconds, note, number, plain, say, share, short, show_json, title_of_run
from ..faults import Interrupted, Refused, Status
from ..lookup import Kind, Names, find_build_or_run, fits, names_of_build, names_of_run
from ..options import Json, Profile, Yes
from ..session import connected

_MANY = 10
_OPEN_BUILDS = ("queued", "running")
_OPEN_RUNS = ("waiting", "queued", "leased", "running")


def logs(
    reference: Annotated[
        str,
        typer.Argument(
            metavar="BUILD|RUN",
            help="The id of a build or run, its end, or a build's name.",
            autocompletion=completing.builds,
        ),
    ],
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until it is over.")] = False,
    profile: Profile = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line: an event or a step.")] = False,
) -> None:
    """Show a build's log or a run's steps; with -f as they come, and 3 as exit status if it fails."""
    with connected(profile) as client:
        kind, thing = find_build_or_run(client, reference)
        resource = client.builds if kind is Kind.BUILD else client.runs
        if not follow:
            for line in _so_far(client, kind, thing.id):
                show_json(line) if json else _show_line(line)
            return
        state = None
        try:
            for event in resource.events(thing.id):
                state = event.state if isinstance(event, StateEvent) else state
                if json:
                    show_json({"event": type(event).__name__.removesuffix("Event").lower(), **plain(event)})
                else:
                    _show_event(event)
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted; the {kind} goes on, and the same command follows it again") from None
    if state in ("failed", "cancelled"):
        raise typer.Exit(Status.FAILED)


def cancel(
    references: Annotated[
        list[str],
        typer.Argument(
            metavar="REF",
            help="Builds and runs by id or its end; a build's name or glob: all of it.",
            autocompletion=completing.builds,
        ),
    ],
    yes: Yes = False,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """End builds and runs that are not over."""
    with connected(profile) as client:
        found = _open(client, references)
        if len(found) > _MANY and not yes:
            typer.confirm(f"cancel {len(found)} builds and runs?", abort=True, err=True)
        ended = []
        for kind, label, thing in found:
            done = (client.builds if kind is Kind.BUILD else client.runs).cancel(thing.id)
            ended.append({"kind": kind, **plain(done)})
            if not json:
                say(f"cancelled {kind} {label} ({short(thing.id)})")
    if json:
        show_json({"items": ended})


def _open(client: Client, words: Sequence[str]) -> list[tuple[Kind, str, Any]]:
    """What the words mean of what is not over. Refused where one means nothing."""
    known: list[tuple[Kind, str, Any, Names]] = [
        (Kind.BUILD, f"{one.name} for {one.target}", one, names_of_build)
        for state in _OPEN_BUILDS
        for one in client.builds.list(state=state)
    ]
    known += [
        (Kind.RUN, title_of_run(one), one, names_of_run)
        for state in _OPEN_RUNS
        for one in client.runs.list(state=state)
    ]
    found: dict[str, tuple[Kind, str, Any]] = {}
    for word in words:
        meant = {one.id: (kind, label, one) for kind, label, one, called in known if fits(word, one, called)}
        if not meant:
            raise Refused(f"no build or run that is not over is called '{word}'; `builds` and `runs` list all")
        found |= meant
    return list(found.values())


def _so_far(client: Client, kind: Kind, identity: str) -> Iterator[dict[str, Any]]:
    """The lines of a build's log, or a run's steps."""
    if kind is Kind.BUILD:
        yield from ({"text": line} for line in client.builds.log(identity).splitlines())
    else:
        yield from (plain(step) for step in client.runs.steps(identity))


def _show_line(line: dict[str, Any]) -> None:
    say(line["text"].expandtabs() if "text" in line else _step(line["step"], line["loss"], line["ms"]))


def _step(step: int, loss: float | None, ms: float | None) -> str:
    return f"step {step}: loss {number(loss)}, {milliseconds(ms)}"


def _show_event(event: Any) -> None:
    """An event for a person: results on stdout, the rest on stderr."""
    if isinstance(event, LogEvent):
        for line in event.text.splitlines():
            say(line.expandtabs())
    elif isinstance(event, StepsEvent):
        for one in event.items:
            say(_step(one.step, one.loss, one.ms))
    elif isinstance(event, EvaluationEvent):
        accuracy = "" if event.accuracy is None else f", accuracy {share(event.accuracy)}"
        say(f"{event.phase}: loss {number(event.loss)}{accuracy}")
    elif isinstance(event, StateEvent):
        why = event.reason or (event.failure.detail if event.failure else "")
        note(f"{event.state}{': ' if why else ''}{why}")
