"""`download`: an artifact, trained weights, a model or a dataset as a file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ... import Client
from ...errors import Damaged
from ...files import digest_and_size
from ...schema import WeightsForm
from .. import completing
from ..console import note, say, show_json, size, visible
from ..faults import Refused
from ..lookup import find_builds, find_runs
from ..options import Json, Profile
from ..progress import Moved, byte_bar
from ..session import connected


class Source(StrEnum):
    """What is fetched."""

    BUILD = "build"
    """Its artifact."""
    RUN = "run"
    """The weights that it trained."""
    MODEL = "model"
    """The ONNX file."""
    DATASET = "dataset"
    """The safetensors file."""


_ENDINGS = {".pock": Source.BUILD, ".onnx": Source.MODEL, ".safetensors": Source.RUN}


def download(
    reference: Annotated[
        str, typer.Argument(metavar="REF", help="A build, run, model or dataset.", autocompletion=completing.files)
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="PATH", help="The file to write.")],
    kind: Annotated[
        Source | None,
        typer.Option("--as", help="What REF is; default: .pock is of a build, .onnx a model, .safetensors of a run."),
    ] = None,
    target: Annotated[str | None, typer.Option("--target", help="Of a build's name: which of its targets.")] = None,
    delta: Annotated[
        bool, typer.Option("--delta", help="Of a run: what it changed of the weights, as it came from the device.")
    ] = False,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Fetch a file and check it; what was there of it already is not fetched again."""
    source = kind or (Source.RUN if delta else _ENDINGS.get(output.suffix.lower()))
    if source is None:
        raise typer.BadParameter(f"say with --as what '{reference}' is: '{output.name}' does not", param_hint="REF")
    if delta and source is not Source.RUN:
        raise typer.BadParameter(f"only a run has a delta, not a {source}", param_hint="--delta")
    with connected(profile) as client, byte_bar(output.name) as moved:
        thing = _meant(client, source, reference, target)
        if delta:
            client.runs.delta(thing, output, progress=moved)
            digest = str(thing.weights_digest)
        else:
            digest = _fetch(client, source, thing, output, moved)
    nbytes = output.stat().st_size
    sizes = _sizes(thing) if source is Source.RUN else {}
    if json:
        show_json({"path": str(output), "digest": digest, "size": nbytes, **sizes})
    else:
        say(f"{output}: {size(nbytes)}, sha256 {digest[:12]}")
        if sizes:
            note(f"{size(sizes['delta_bytes'])} came from the device; all weights are {size(sizes['full_bytes'])}")


def _sizes(run: Any) -> dict[str, int]:
    """Bytes that came from the device, where they were a delta, and of all weights."""
    if run.weights_form != WeightsForm.delta or run.full_weights_bytes is None:
        return {}
    return {"delta_bytes": run.weights_bytes or 0, "full_bytes": run.full_weights_bytes}


def _meant(client: Client, source: Source, reference: str, target: str | None) -> Any:
    """The one thing that is meant. Refused where it is none, or several."""
    if source is Source.MODEL:
        return client.models.find(reference)
    if source is Source.DATASET:
        return client.datasets.find(reference)
    if source is Source.RUN:
        found = find_runs(client, [reference])
        places = ", ".join(sorted({visible(one.device_name) for one in found}))
        hint = f"it ran on {places}: say the run's id"
    else:
        built = find_builds(client, [reference], "succeeded")
        found = [one for one in built if target is None or one.target == target]
        places = ", ".join(sorted({visible(one.target) for one in built}))
        hint = f"it is built for {places}: say --target, or the build's id"
    if len(found) != 1:
        raise Refused(f"'{reference}' is {len(found) or 'none'} of the {source}s that could be fetched; {hint}")
    return found[0]


def _fetch(client: Client, source: Source, thing: Any, output: Path, moved: Moved) -> str:
    """Write the file; its digest."""
    if source is Source.BUILD:
        client.artifacts.download(thing, output, progress=moved)
        return str(thing.artifact_digest)
    if source is Source.RUN:
        if thing.weights_digest is None:
            raise Refused(f"the run on {thing.device_name} has no weights; `run … --save-weights` brings them back")
        client.runs.weights(thing, output, progress=moved)
        return digest_and_size(output)[0]
    for name, digest in (thing.external if source is Source.MODEL else {}).items():
        if Path(name).name != name or name in ("", ".", "..") or "\\" in name:
            raise Damaged(f"'{name}' is no name of a file beside the model; nothing was fetched")
        client.blobs.download(digest, output.with_name(name))
    client.blobs.download(thing.digest, output, progress=moved)
    return str(thing.digest)
