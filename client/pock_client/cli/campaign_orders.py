"""What a person orders of a campaign: a YAML file, options, or both, with things called by their names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, structs

from .. import Client
from ..asynchronous.campaigns import CampaignOrder
from ..schema import Canary, HeldShare, StopRules
from .faults import Refused
from .lookup import find_builds

_MOST_BYTES = 64 << 10
_KEYS = frozenset({"name", "on", "steps", *CampaignOrder.__annotations__})
_LISTS = ("builds", "recipes", "targets", "devices", "seeds")
_NEEDED = ("name", "on", "steps")
_PARTS: dict[str, tuple[type[Struct], str]] = {
    "canary": (Canary, "{devices: 2}"),
    "stop": (StopRules, "{failed: 3}"),
    "held_out": (HeldShare, "{share: 0.2, patience: 3}"),
}
"""Of keys that are mappings themselves: what they become, and an example."""


def read_file(path: Path) -> dict[str, Any]:
    """What a file orders. Refused where it is no mapping of what a campaign knows."""
    with path.open("rb") as stream:
        text = stream.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise Refused(f"{path} is longer than {_MOST_BYTES} bytes")
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        raise Refused(f"{path} is no YAML: {error}") from None
    if not isinstance(found, dict):
        raise Refused(f"{path} has no keys; a campaign has a name, on, steps and others")
    return {"on" if key is True else key: value for key, value in found.items()}  # YAML 1.1 takes `on` for a truth


def resolved(client: Client, order: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `client.campaigns.create`. Files are pushed; a build's name means the newest one of each target.
    Refused where something is missing or not known."""
    unknown = sorted(set(map(str, order)) - _KEYS)
    if unknown:
        raise Refused(f"a campaign has no {', '.join(unknown)}; it has {', '.join(sorted(_KEYS))}")
    found = {name: value for name, value in order.items() if value not in (None, [], ())}
    for name in _LISTS:
        if name in found and not isinstance(found[name], list | tuple):
            found[name] = [found[name]]
    if "devices" in found:
        found["devices"] = [str(one) for one in found["devices"]]
        found.setdefault("on", "*")
    missing = [name for name in _NEEDED if name not in found]
    if missing:
        raise Refused(f"a campaign needs {' and '.join(missing)}")
    for name, (kind, example) in _PARTS.items():
        if name in found:
            _check_part(name, found[name], kind, example)
    if "builds" in found:
        found["builds"] = [one.id for one in find_builds(client, [str(one) for one in found["builds"]])]
    if "model" in found and Path(str(found["model"])).is_file():
        found["model"] = client.models.push(found["model"]).id
    if "recipes" in found:
        found["recipes"] = [_recipe(client, str(one)) for one in found["recipes"]]
    return found


def _check_part(name: str, value: object, kind: type[Struct], example: str) -> None:
    fields = structs.fields(kind)
    needed, known = {one.name for one in fields if one.required}, {one.name for one in fields}
    if not (isinstance(value, Mapping) and needed <= set(value) <= known):
        raise Refused(f"{name} of a campaign is a mapping of {', '.join(sorted(known))}, such as {name}: {example}")


def _recipe(client: Client, word: str) -> str:
    """The id of a kept recipe; a file is pushed."""
    return (client.recipes.push(Path(word)) if Path(word).is_file() else client.recipes.find(word)).id
