"""`rollout`: a release of the agent comes to devices, a few first."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Annotated, Any

import typer

from ... import Client
from ..console import ago, note, plain, rest_words, say, short, show_json, show_pairs, show_table
from ..faults import Refused, ServiceCommand, Status
from ..lookup import fits, is_id
from ..options import Json, Limit, Profile, Timeout
from ..session import connected, patient

_MOST = 1000
_GOOD = ("succeeded", "reverted")

rollout_app = typer.Typer(name="rollout", no_args_is_help=True, help="Bring a release of the agent to devices.")
Rollout = Annotated[str, typer.Argument(metavar="ROLLOUT", help="Its id or the end of it, or a version.")]
WaitIt = Annotated[bool, typer.Option("--wait/--no-wait", help="Follow it until it moves no more by itself.")]


@rollout_app.command("create", cls=ServiceCommand)
def create_rollout(
    release: Annotated[str, typer.Argument(metavar="VERSION", help="Of a release that was pushed, or its id.")],
    on: Annotated[str, typer.Option("--on", metavar="SELECTOR", help="Devices, such as 'pool=kitchen' or '*'.")],
    canary: Annotated[int, typer.Option("--canary", min=0, max=1000, help="So many devices first.")] = 1,
    stages: Annotated[str, typer.Option("--stages", help="Then so many percent of them all.")] = "10,50,100",
    healthy: Annotated[int, typer.Option("--healthy", metavar="SECONDS", min=1, help="How long it has to last.")] = 600,
    check_in: Annotated[
        int, typer.Option("--check-in", metavar="SECONDS", min=5, help="How soon a new version has to be heard of.")
    ] = 300,
    max_failed: Annotated[int, typer.Option("--max-failed", min=0, help="With more failed devices it stops.")] = 0,
    wait: WaitIt = False,
    timeout: Timeout = None,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Bring a release of the agent to the devices that a selector chooses, stage after stage."""
    with (patient if wait else connected)(profile) as client:
        made = client.rollouts.create(
            release=release,
            on=on,
            canary=canary,
            stages=_percents(stages),
            healthy_seconds=healthy,
            check_in_seconds=check_in,
            max_failed=max_failed,
        )
        _follow(client, made, wait, timeout, json)


@rollout_app.command("show", cls=ServiceCommand)
def show_rollout(
    rollout: Rollout,
    wait: WaitIt = False,
    timeout: Timeout = None,
    limit: Limit = 200,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Show how a rollout stands, and each of its devices."""
    with (patient if wait else connected)(profile) as client:
        found = _find(client, rollout)
        if wait:
            found = client.rollouts.wait(found.id, _told(), timeout)
        devices = list(islice(client.rollouts.devices(found.id), limit))
    if json:
        show_json({**plain(found), "items": plain(devices)})
    else:
        show_pairs(_account(found))
        show_table(("device", "stage", "state", "since", "before", "detail"), map(_row, devices), "no devices")
    if wait and found.state not in _GOOD:
        raise typer.Exit(Status.FAILED)


@rollout_app.command("list", cls=ServiceCommand)
def list_rollouts(limit: Limit = 50, profile: Profile = None, json: Json = False) -> None:
    """List rollouts, newest first."""
    with connected(profile) as client:
        found = list(islice(client.rollouts.list(), limit))
    if json:
        show_json({"items": plain(found)})
        return
    rows = [(one.version, str(one.state), one.on, _counts(one), short(one.id), ago(one.created_at)) for one in found]
    show_table(("version", "state", "on", "devices", "id", "began"), rows, "no rollouts; `rollout create` makes one")


@rollout_app.command("pause", cls=ServiceCommand)
def pause_rollout(rollout: Rollout, profile: Profile = None, json: Json = False) -> None:
    """Offer nothing more until it is resumed."""
    _change(rollout, profile, json, lambda client: client.rollouts.pause)


@rollout_app.command("resume", cls=ServiceCommand)
def resume_rollout(rollout: Rollout, profile: Profile = None, json: Json = False) -> None:
    """Go on with one that was paused, or that stopped."""
    _change(rollout, profile, json, lambda client: client.rollouts.resume)


@rollout_app.command("cancel", cls=ServiceCommand)
def cancel_rollout(rollout: Rollout, profile: Profile = None, json: Json = False) -> None:
    """End it; devices keep what they have."""
    _change(rollout, profile, json, lambda client: client.rollouts.cancel)


@rollout_app.command("roll-back", cls=ServiceCommand)
def roll_back_rollout(
    rollout: Rollout, wait: WaitIt = False, timeout: Timeout = None, profile: Profile = None, json: Json = False
) -> None:
    """Have the devices that took the release return to the version before."""
    with (patient if wait else connected)(profile) as client:
        changed = client.rollouts.roll_back(_find(client, rollout).id)
        _follow(client, changed, wait, timeout, json)


def _change(rollout: str, profile: str | None, json: bool, verb: Callable[[Client], Callable[[str], Any]]) -> None:
    with connected(profile) as client:
        changed = verb(client)(_find(client, rollout).id)
    _show(changed, json)


def _follow(client: Client, rollout: Any, wait: bool, timeout: float | None, json: bool) -> None:
    if wait:
        rollout = client.rollouts.wait(rollout.id, _told(), timeout)
    _show(rollout, json)
    if wait and rollout.state not in _GOOD:
        raise typer.Exit(Status.FAILED)


def _show(rollout: Any, json: bool) -> None:
    if json:
        show_json(rollout)
        return
    why = f": {rollout.reason}" if rollout.reason else ""
    say(f"rollout {short(rollout.id)} of {rollout.version} is {rollout.state}{why} ({_counts(rollout)})")


def _told() -> Callable[[Any], None]:
    """A line for each change."""

    def tell(found: Any) -> None:
        stage = "canary" if found.stage == 0 else f"stage {found.stage} of {len(found.stages)}"
        note(f"{found.version}: {found.state}, {stage}: {_counts(found)}")

    return tell


def _find(client: Client, word: str) -> Any:
    if is_id(word):
        return client.rollouts.get(word.lower())
    for one in islice(client.rollouts.list(), _MOST):
        if fits(word, one, lambda rollout: (rollout.version,)):
            return one
    raise Refused(f"no rollout is called '{word}'; `rollout list` lists all")


def _percents(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"'{text}' is no list such as 10,50,100", param_hint="--stages") from None


def _counts(rollout: Any) -> str:
    return ", ".join(f"{count} {state}" for state, count in sorted(rollout.devices.items())) or "no devices"


def _account(rollout: Any) -> dict[str, object]:
    return {
        "rollout": rollout.id,
        "version": rollout.version,
        "state": f"{rollout.state}{f': {rollout.reason}' if rollout.reason else ''}",
        "on": rollout.on,
        "stage": "canary" if rollout.stage == 0 else f"{rollout.stages[rollout.stage - 1]} %",
        "devices": _counts(rollout),
    }


def _row(one: Any) -> tuple[object, ...]:
    stage = "–" if one.stage < 0 else "canary" if one.stage == 0 else str(one.stage)
    said = [one.detail] if one.detail else []
    if one.resting is not None:
        said.append(f"it rests: {rest_words(one.resting)}")
    return (
        one.device_name,
        stage,
        str(one.state),
        ago(one.changed_at),
        one.version_before or "–",
        "; ".join(said) or "–",
    )
