"""`push`, `models`, `datasets`, `recipes`, `targets`: what builds and runs are made of."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ... import Client
from ..console import ago, plain, reference, say, short, show_json, show_table, size
from ..lookup import chosen
from ..options import Json, Limit, Names, Profile
from ..progress import byte_bar
from ..session import connected


class Kind(StrEnum):
    """What a file is to the service."""

    MODEL = "model"
    """An ONNX model, with its external data files."""
    DATASET = "dataset"
    """Tensors in the safetensors format, one sample an entry of the first dimension."""
    RECIPE = "recipe"
    """What is trained, and how, as YAML."""


_ENDINGS = {".onnx": Kind.MODEL, ".safetensors": Kind.DATASET, ".yaml": Kind.RECIPE, ".yml": Kind.RECIPE}


def push(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="ONNX models, safetensors datasets, YAML recipes.", exists=True)
    ],
    name: Annotated[str | None, typer.Option("--name", help="Of one file; default: the file's own.")] = None,
    kind: Annotated[
        Kind | None, typer.Option("--as", help="What the files are; default: by their endings.", show_choices=True)
    ] = None,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Upload models, datasets and recipes; bytes that the service has are not sent again.

    A name that is there gets a next version, unless the file is one of its versions already."""
    if name is not None and len(files) > 1:
        raise typer.BadParameter(f"{len(files)} files cannot have one name", param_hint="--name")
    kinds = [kind or _kind(file) for file in files]
    with connected(profile) as client:
        made = [_push(client, what, file, name) for file, what in zip(files, kinds, strict=True)]
    if json:
        show_json({"items": [{"kind": what, **plain(one)} for what, one in zip(kinds, made, strict=True)]})
        return
    for file, what, one in zip(files, kinds, made, strict=True):
        say(f"{file}: {what} {reference(one)}, {size(file.stat().st_size)}, sha256 {one.digest[:12]}")


def _push(client: Client, kind: Kind, file: Path, name: str | None) -> Any:
    if kind is Kind.RECIPE:
        return client.recipes.push(file, name=name)
    return (push_model if kind is Kind.MODEL else push_dataset)(client, file, name)


def push_model(client: Client, file: Path, name: str | None = None) -> Any:
    """Upload a model with its external data; a bar shows how far it is."""
    with byte_bar(file.name) as moved:
        return client.models.push(file, name=name, progress=moved)


def push_dataset(client: Client, file: Path, name: str | None = None) -> Any:
    """Upload a dataset; a bar shows how far it is."""
    with byte_bar(file.name) as moved:
        return client.datasets.push(file, name=name, progress=moved)


def models(names: Names = None, limit: Limit = 50, profile: Profile = None, json: Json = False) -> None:
    """List models, newest first."""
    with connected(profile) as client:
        found = chosen(client.models.list(), names, _names, limit)
    rows = [
        (reference(one), _tags(one), size(one.size), one.digest[:12], short(one.id), ago(one.created_at))
        for one in found
    ]
    _show(
        found, ("model", "tags", "size", "sha256", "id", "pushed"), rows, "no models; `push MODEL.onnx` makes one", json
    )


def datasets(names: Names = None, limit: Limit = 50, profile: Profile = None, json: Json = False) -> None:
    """List datasets, newest first."""
    with connected(profile) as client:
        found = chosen(client.datasets.list(), names, _names, limit)
    rows = [
        (reference(one), _tags(one), one.samples, _tensors(one), size(one.size), short(one.id), ago(one.created_at))
        for one in found
    ]
    titles = ("dataset", "tags", "samples", "tensors", "size", "id", "pushed")
    _show(found, titles, rows, "no datasets; `push DATA.safetensors` makes one", json)


def recipes(names: Names = None, limit: Limit = 50, profile: Profile = None, json: Json = False) -> None:
    """List recipes, newest first."""
    with connected(profile) as client:
        found = chosen(client.recipes.list(), names, _names, limit)
    rows = [(reference(one), _tags(one), one.digest[:12], short(one.id), ago(one.created_at)) for one in found]
    _show(found, ("recipe", "tags", "sha256", "id", "pushed"), rows, "no recipes; `push RECIPE.yaml` makes one", json)


def targets(profile: Profile = None, json: Json = False) -> None:
    """List the devices that the service builds for."""
    with connected(profile) as client:
        found = list(client.targets.list())
    rows = [(one.name, one.description, one.triple) for one in found]
    _show(found, ("target", "description", "triple"), rows, "the service builds for nothing yet", json)


def _show(found: list[Any], titles: tuple[str, ...], rows: list[Any], empty: str, as_json: bool) -> None:
    if as_json:
        show_json({"items": plain(found)})
    else:
        show_table(titles, rows, empty)


def _names(one: Any) -> tuple[str, ...]:
    return (one.name,)


def _tags(one: Any) -> str:
    return ", ".join(one.tags) or "–"


def _tensors(dataset: Any) -> str:
    """Each tensor with its type and the shape of a sample."""
    return ", ".join(f"{one.name} {one.dtype} {list(one.shape[1:])}" for one in dataset.tensors[:4])


def _kind(file: Path) -> Kind:
    kind = _ENDINGS.get(file.suffix.lower())
    if kind is None:
        raise typer.BadParameter(f"'{file}' ends in none of {', '.join(_ENDINGS)}: say --as", param_hint="FILE")
    return kind
