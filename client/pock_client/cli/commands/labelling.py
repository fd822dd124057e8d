"""`devices label`, `devices move`, `tag`, `untag`: what operators say about what there is."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import islice
from typing import Annotated, Any

import typer

from ... import Client
from ...errors import PockClientError, ServiceError
from .. import completing
from ..console import plain, reference, say, show_json
from ..faults import Refused, ServiceCommand
from ..options import Json, Profile, Yes
from ..session import connected
from .devices import devices_app

_MOST = 1000

Chosen = Annotated[
    str,
    typer.Argument(
        metavar="DEVICE|SELECTOR",
        help="A device's name or id, a glob of names, or a selector such as 'pool=kitchen'.",
        show_default=False,
        autocompletion=completing.devices,
    ),
]


class Tagged(StrEnum):
    """What has versions, which tags name."""

    MODEL = "model"
    """An ONNX model."""
    DATASET = "dataset"
    """Data to train on."""
    RECIPE = "recipe"
    """What is trained, and how."""
    BUILD = "build"
    """A training binary."""


Word = Annotated[str, typer.Argument(metavar="TAG", help="Such as stable; not v3 and the like.", show_default=False)]
Version = Annotated[
    str,
    typer.Argument(
        metavar="REF",
        help="A model, dataset, recipe or build: NAME, NAME:v3.",
        show_default=False,
        autocompletion=completing.versioned,
    ),
]
As = Annotated[
    Tagged | None, typer.Option("--as", help="What REF is; needed where several have this name.", show_choices=True)
]


@devices_app.command("label", cls=ServiceCommand)
def label(
    on: Chosen,
    changes: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE|KEY-", help="Labels to put on, and with - to take away.")
    ],
    yes: Yes = False,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Put labels on devices, or take them away."""
    labels = dict(_change(one) for one in changes)
    with connected(profile) as client:
        changed = [client.devices.change(one.id, labels=labels) for one in _chosen(client, on, yes)]
    _show(changed, json, lambda one: ", ".join(f"{key}={value}" for key, value in one.labels.items()) or "no labels")


@devices_app.command("move", cls=ServiceCommand)
def move(
    on: Chosen,
    pool: Annotated[
        str, typer.Option("--pool", metavar="POOL", help="Where they belong.", autocompletion=completing.pools)
    ],
    yes: Yes = False,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Put devices into another pool."""
    with connected(profile) as client:
        changed = [client.devices.change(one.id, pool=pool) for one in _chosen(client, on, yes)]
    _show(changed, json, lambda one: f"pool {one.pool}")


def tag(ref: Version, word: Word, kind: As = None, profile: Profile = None, json: Json = False) -> None:
    """Let a tag name a version of a model, dataset, recipe or build, and no other version of its name."""
    with connected(profile) as client:
        resource, found = _version(client, ref, kind)
        done = resource.tag(found.id, word)
    show_json(done) if json else say(f"{reference(done)}: {', '.join(done.tags)}")


def untag(ref: Version, word: Word, kind: As = None, profile: Profile = None, json: Json = False) -> None:
    """Take a tag from a version."""
    with connected(profile) as client:
        resource, found = _version(client, ref, kind)
        resource.untag(found.id, word)
        left = resource.get(found.id)
    show_json(left) if json else say(f"{reference(left)}: {', '.join(left.tags) or 'no tags'}")


def _change(text: str) -> tuple[str, str | None]:
    key, equals, value = text.partition("=")
    if key and equals:
        return key, value
    if len(text) > 1 and text.endswith("-") and not equals:
        return text[:-1], None
    raise typer.BadParameter(f"'{text}' is neither KEY=VALUE nor KEY-", param_hint="KEY=VALUE|KEY-")


def _chosen(client: Client, on: str, yes: bool) -> list[Any]:
    """The devices that are meant; more than one is asked about. Refused where there is none."""
    found = list(islice(client.devices.list(on), _MOST + 1))
    if not found:
        raise Refused(f"no device matches '{on}'; `devices` lists all")
    if len(found) > _MOST:
        raise Refused(f"'{on}' matches more than {_MOST} devices; narrow it down")
    if len(found) > 1 and not yes:
        typer.confirm(f"change {len(found)} devices?", abort=True, err=True)
    return found


def _show(changed: Sequence[Any], as_json: bool, words: Any) -> None:
    if as_json:
        show_json({"items": plain(changed)})
        return
    for one in changed:
        say(f"{one.name}: {words(one)}")


def _version(client: Client, ref: str, kind: Tagged | None) -> tuple[Any, Any]:
    """The version that is meant, and the resource that it is of. Refused where none or several kinds have it."""
    resources: dict[Tagged, Any] = {
        Tagged.MODEL: client.models,
        Tagged.DATASET: client.datasets,
        Tagged.RECIPE: client.recipes,
        Tagged.BUILD: client.builds,
    }
    found: dict[Tagged, Any] = {}
    for one in resources if kind is None else (kind,):
        try:
            found[one] = resources[one].find(ref)
        except ServiceError as error:
            if error.status != 404:
                raise
        except PockClientError:
            continue
    if not found:
        raise Refused(f"there is no {kind or 'model, dataset, recipe or build'} '{ref}'")
    if len(found) > 1:
        raise Refused(f"'{ref}' is the name of a {' and a '.join(found)}; say with --as which is meant")
    ((one, thing),) = found.items()
    return resources[one], thing
