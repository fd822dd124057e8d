"""`federate`: training on many devices that keep their data, round by round."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from ... import Client
from ...schema import Aggregation, Federation
from .. import completing
from ..console import ago, note, number, plain, say, short, show_json, show_table, size
from ..faults import Refused, ServiceCommand, Status, program
from ..lookup import find_builds, fits, is_id
from ..options import Json, Limit, Profile, Timeout, Wait
from ..progress import byte_bar
from ..session import connected, patient
from ..watching import Seen, wait_for_all

federate_app = typer.Typer(
    name="federate", no_args_is_help=True, help="Train on many devices that keep their data, round by round."
)
_MOST = 1000

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A federation's name (the newest of it), or its id.",
        autocompletion=completing.federations,
    ),
]


@federate_app.command("create", cls=ServiceCommand)
def create(
    context: typer.Context,
    build: Annotated[
        str,
        typer.Argument(metavar="BUILD", help="A build or model, by name or id.", autocompletion=completing.builds),
    ],
    on: Annotated[str, typer.Option("--on", metavar="SELECTOR", help="Devices, such as 'pool=kitchen,ram>=2GiB'.")],
    data: Annotated[
        str, typer.Option("--data", metavar="DATASET", help="A dataset's name; {device} stands for the device's.")
    ],
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="How many.")] = 10,
    devices: Annotated[int, typer.Option("--devices", min=1, help="Of a round, at most.")] = 10,
    minimum: Annotated[int | None, typer.Option("--minimum", min=1, help="That must answer; default: half.")] = None,
    steps: Annotated[int | None, typer.Option("--steps", min=1, help="Of each device in a round.")] = None,
    epochs: Annotated[float | None, typer.Option("--epochs", help="Instead of steps; default 1.")] = None,
    aggregation: Annotated[Aggregation, typer.Option("--aggregation")] = Aggregation.fedavg,
    server_lr: Annotated[float, typer.Option("--server-lr", help="The server's learning rate.")] = 1.0,
    clip: Annotated[
        float | None, typer.Option("--clip", help="Longest update; longer ones are made this long.")
    ] = None,
    noise: Annotated[float | None, typer.Option("--noise", help="Deviation of Gaussian noise, in clip norms.")] = None,
    deadline: Annotated[int, typer.Option("--deadline", metavar="SECONDS", min=1, help="Of each round.")] = 3600,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the choice of devices, and of training.")] = 0,
    name: Annotated[str | None, typer.Option("--name", help="Default: the build's.")] = None,
    target: Annotated[str | None, typer.Option("--target", help="Of a build's name: which of its targets.")] = None,
    wait: Wait = True,
    timeout: Timeout = None,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Begin a federation: in each round some devices train, and what they changed is averaged."""
    options: dict[str, Any] = {
        "minimum": minimum,
        "steps": steps,
        "epochs": epochs if steps or epochs else 1.0,
        "clip_norm": clip,
    }
    options |= {"noise_multiplier": noise, "round_deadline": deadline, "seed": seed, "aggregation": str(aggregation)}
    options["server_learning_rate"] = server_lr
    with connected(profile) as client:
        meant = _build(client, build, target)
        made = client.federations.create(
            name=name or meant.name, build=meant.id, on=on, rounds=rounds, devices_per_round=devices,
            dataset=data,
            **{key: value for key, value in options.items() if value is not None},
        )  # fmt: skip
    _follow(context, made, wait, timeout, profile, as_json=json)


@federate_app.command("wait", cls=ServiceCommand)
def wait_for(
    context: typer.Context, name: Name, timeout: Timeout = None, profile: Profile = None, json: Json = False
) -> None:
    """Wait for the last round, and show how far it is meanwhile."""
    with connected(profile) as client:
        found = _find(client, name)
    _follow(context, found, True, timeout, profile, as_json=json)


@federate_app.command("show", cls=ServiceCommand)
def show(name: Name, profile: Profile = None, json: Json = False) -> None:
    """Show its rounds: who took part, whose updates did not count and why, how many bytes went."""
    with connected(profile) as client:
        found = _find(client, name)
        rounds = list(islice(client.federations.rounds(found.id), _MOST))
    if json:
        show_json({"federation": plain([found])[0], "rounds": plain(rounds)})
        return
    _show(found)
    rows = [_row(one) for one in rounds]
    show_table(("round", "accepted", "of", "loss", "went", "up", "down"), rows, "no round has begun")
    for one in rounds:
        for member in one.members:
            if member.reason is not None:
                note(f"round {one.number}, {member.device_name} {member.state}: {member.reason}")


@federate_app.command("list", cls=ServiceCommand)
def list_federations(limit: Limit = 50, profile: Profile = None, json: Json = False) -> None:
    """List federations, newest first."""
    with connected(profile) as client:
        found = list(islice(client.federations.list(), limit))
    if json:
        show_json({"items": plain(found)})
        return
    rows = [
        (short(one.id), one.name, str(one.state), f"{one.round}/{one.rounds}", one.on, ago(one.created_at))
        for one in found
    ]
    show_table(("id", "name", "state", "round", "on", "begun"), rows, "no federations; `federate create` begins one")


@federate_app.command("cancel", cls=ServiceCommand)
def cancel(name: Name, profile: Profile = None, json: Json = False) -> None:
    """Cancel it, and the runs of its present round."""
    with connected(profile) as client:
        found = client.federations.cancel(_find(client, name).id)
    if json:
        show_json(found)
    else:
        say(f"{found.name}: {found.state}")


@federate_app.command("download", cls=ServiceCommand)
def download(
    name: Name,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="PATH", help="The file to write.")],
    delta: Annotated[bool, typer.Option("--delta", help="What it changed of the build's weights, instead.")] = False,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Write its newest weights, those of the last round that ended, as safetensors."""
    with connected(profile) as client, byte_bar(output.name) as moved:
        found = _find(client, name)
        fetch = client.federations.delta if delta else client.federations.weights
        fetch(found, output, progress=moved)
    if json:
        show_json({"path": str(output), "size": output.stat().st_size, "digest": found.weights_digest})
    else:
        say(f"{output}: {size(output.stat().st_size)}, after round {_ended(found)} of {found.rounds}")


def _build(client: Client, word: str, target: str | None) -> Any:
    """The one build that is meant. Refused where it is several."""
    found = [one for one in find_builds(client, [word], "succeeded") if target is None or one.target == target]
    if len(found) != 1:
        places = ", ".join(sorted({one.target for one in found}))
        raise Refused(f"'{word}' is {len(found) or 'none'} of the succeeded builds ({places}); say --target, or its id")
    return found[0]


def _find(client: Client, word: str) -> Federation:
    """The one of this id, or the newest of this name. Refused where there is none."""
    if is_id(word):
        return client.federations.get(word.lower())
    for one in islice(client.federations.list(), _MOST):
        if fits(word, one, lambda found: (found.name,)):
            return one
    raise Refused(f"no federation is called '{word}'; `federate list` lists all")


def _follow(
    context: typer.Context, one: Federation, wait: bool, timeout: float | None, profile: str | None, *, as_json: bool
) -> None:
    """Wait for it if that is wanted, and show it as it stands."""
    if wait:
        words = f"{program(context)} federate"
        after = f"it goes on; `{words} wait {short(one.id)}` follows it, `{words} cancel {short(one.id)}` ends it"
        with patient(profile) as client:
            (one,) = wait_for_all({one.name: one}, client.federations.get, _look, timeout, after)
    if as_json:
        show_json(one)
    else:
        _show(one)
    if one.failure is not None:
        note(f"{one.failure.detail} ({one.failure.code})")
    if wait and one.state != "succeeded":
        raise typer.Exit(Status.FAILED)


def _look(one: Federation) -> Seen:
    return Seen(f"{one.state}, round {one.round} of {one.rounds}", _ended(one) / one.rounds)


def _ended(one: Federation) -> int:
    return one.rounds if one.state == "succeeded" else one.round - 1


def _show(one: Federation) -> None:
    moved = (one.up_bytes or 0) + (one.down_bytes or 0)
    rows = [
        ("id", short(one.id)),
        ("state", f"{one.state}, {_ended(one)} of {one.rounds} rounds have ended"),
        ("devices", f"{one.devices_per_round} a round on {one.on}, {one.minimum} must answer"),
        ("exchanged", f"{size(one.up_bytes)} up, {size(one.down_bytes)} down; all weights: {size(one.full_bytes)}"),
    ]
    if moved and one.full_bytes:
        rows.append(("that is", f"{number(100 * moved / one.full_bytes)} % of sending all weights both ways"))
    if one.rejected:
        rows.append(("rejected", f"{one.rejected} contributions"))
    if one.epsilon is not None:
        rows.append(("privacy", f"epsilon {number(one.epsilon)} at delta {number(one.delta)}"))
    show_table((one.name, ""), rows, "")


def _row(one: Any) -> tuple[str, ...]:
    accepted = sum(member.state == "accepted" for member in one.members)
    went = "–" if one.step_norm is None else number(one.step_norm)
    loss = "–" if one.loss is None else number(one.loss)
    sizes = size(one.up_bytes), size(one.down_bytes)
    return str(one.number), str(accepted), str(len(one.members)), loss, went, *sizes
