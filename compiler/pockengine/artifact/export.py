"""A fine-tuned model out of an artifact and weights: as safetensors that PyTorch loads, or as an ONNX model to predict
with; adapters merged, kept apart, or alone. Tensors are read, changed and written one after the other: of a large model
one is in memory at a time, but for an ONNX file that holds its weights itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from safetensors.numpy import load

from pockengine.autodiff import Adapter, Quantised, adapters_of, with_adapters
from pockengine.codegen.files import write_whole
from pockengine.codegen.onnx import graph_to_onnx
from pockengine.errors import ArtifactError, DataError, PockError, nearest
from pockengine.ir import Array, DType, Graph
from pockengine.ops import prune
from pockengine.recipe import Lora, Recipe
from pockengine.tensors import Deferred, Tensors, stored_tensors

from .archive import Content, Stored, Summed
from .errors import quantised_sentence
from .model_text import MODEL, read_model

if TYPE_CHECKING:
    from .artifact import Artifact

FORMATS = {"safetensors": ".safetensors", "onnx": ".onnx"}
Weights = Mapping[str, Array]
Lazily = Mapping[str, Array | Deferred]
"""Tensors by name, perhaps not in memory."""


def export(
    artifact: Artifact, path: Path, format: str | None, weights: Path | Weights | None, merge: bool, adapters: bool
) -> list[Path]:
    """See Artifact.export."""
    format = _format(path, format)
    lora = Recipe.from_mapping(artifact.manifest.recipe).lora
    if lora is None and (merge or adapters):
        raise PockError(f"the artifact has no adapters to {'merge' if merge else 'export'}: its recipe says no 'lora'")
    if merge and adapters:
        raise PockError("merged weights have no adapters left: choose --merge or --adapters")
    if adapters and format != "safetensors":
        raise PockError("adapters alone are no model: export them with --format safetensors")
    if MODEL not in artifact.contents:
        raise ArtifactError(f"the artifact has no {MODEL}, so it cannot be exported: compile it again")
    initial = _initial(artifact.contents["params.safetensors"])
    quantised = [Quantised.of(*item) for item in artifact.manifest.summary.get("quantised", {}).items()]
    tensors = _restored({**initial, **_given(weights, initial, quantised)}, quantised)
    model = read_model(artifact.contents, artifact.read, _held(tensors))
    tensors = _typed(model, tensors)
    if adapters:
        return [_save(path, _adapters(model, lora, tensors), lora)]
    if merge and lora is not None:
        tensors = _merged(model, lora, tensors)
    if format == "safetensors":
        return [_save(path, tensors, None if merge else lora)]
    predicted = _predicting(model if merge or lora is None else with_adapters(model, lora), artifact)
    return graph_to_onnx(predicted.with_(data=_held(_typed(predicted, tensors)))).save(path)


def _held(tensors: Lazily) -> Weights:
    """The same for those who make an array of what they take, by which it gets its contents."""
    return cast(Weights, tensors)


def _format(path: Path, format: str | None) -> str:
    """The format asked for, else that of the file's ending."""
    if not path.absolute().parent.is_dir():
        raise PockError(f"the folder '{path.parent}' for the export does not exist")
    if format is None:
        known = {ending: name for name, ending in FORMATS.items()}
        if path.suffix not in known:
            raise PockError(f"'{path.name}' ends neither in .safetensors nor in .onnx: say the format")
        return known[path.suffix]
    if format not in FORMATS:
        raise PockError(f"there is no export format '{format}'{nearest(format, FORMATS)}")
    return format


def _initial(content: Content) -> Lazily:
    """The weights as they were compiled in, from wherever they are."""
    content = content.content if isinstance(content, Summed) else content
    if isinstance(content, Tensors):
        return content.arrays
    if isinstance(content, Stored):
        try:
            return stored_tensors(content.archive, *content.place())
        except ValueError as error:
            raise ArtifactError(f"'{content.name}' in {content.archive} is not a safetensors file: {error}") from None
    return load(b"".join(content.chunks()))


def _given(weights: Path | Weights | None, initial: Lazily, quantised: Sequence[Quantised]) -> Lazily:
    """The weights to export, checked against those of the artifact; what is missing stays as it was compiled in."""
    if weights is None:
        return {}
    if isinstance(weights, Path):
        try:
            given: Lazily = stored_tensors(weights)
        except FileNotFoundError:
            raise DataError(f"there is no file of weights '{weights}'") from None
        except ValueError as error:
            raise DataError(f"'{weights}' is not a safetensors file: {error}") from None
    else:
        given = weights
    for name, array in given.items():
        if name not in initial:
            if stored := next((one for one in quantised if one.name == name), None):
                raise DataError(quantised_sentence(name, stored.format))
            raise DataError(f"the model has no tensor '{name}'{nearest(name, initial)}")
        if array.dtype != initial[name].dtype or array.shape != initial[name].shape:
            said, wanted = (f"{a.dtype.name}{list(a.shape)}" for a in (array, initial[name]))
            raise DataError(f"'{name}' is {wanted}, not {said}")
    return given


def _restored(tensors: Lazily, quantised: Sequence[Quantised]) -> Lazily:
    """The tensors with each quantised weight as the user's framework stores it."""
    packed = {name for one in quantised for name in one.names}
    kept = {name: array for name, array in tensors.items() if name not in packed}

    def restored(one: Quantised) -> Array:
        return one.restored({name: np.asarray(tensors[name]) for name in one.names})

    return kept | {
        one.name: Deferred(np.dtype(DType(one.dtype).numpy), one.shape, partial(restored, one)) for one in quantised
    }


def _typed(model: Graph, tensors: Lazily) -> Lazily:
    """The tensors in the types of the imported model: of 16-bit floats, training keeps some in f32."""
    wanted = {value.name: np.dtype(value.type.dtype.numpy) for value in model.params}

    def rounded(stored: Array | Deferred, dtype: np.dtype[Any]) -> Array:
        return np.asarray(stored).astype(dtype)

    return {
        name: stored
        if stored.dtype == wanted.get(name, stored.dtype)
        else Deferred(wanted[name], stored.shape, partial(rounded, stored, wanted[name]))
        for name, stored in tensors.items()
    }


def _adapters(model: Graph, lora: Lora | None, tensors: Lazily) -> Lazily:
    assert lora is not None
    return {name: tensors[name] for adapter in adapters_of(model, lora) for name in adapter.names}


def _merged(model: Graph, lora: Lora, tensors: Lazily) -> Lazily:
    """The model's own tensors, each adapter added to its weight."""
    result = {value.name: tensors[value.name] for value in model.params}
    for adapter in adapters_of(model, lora):
        name, (a, b) = adapter.weight.name, adapter.names
        parts, weight = (tensors[name], tensors[a], tensors[b]), tensors[name]
        result[name] = Deferred(weight.dtype, weight.shape, partial(_merge, adapter, parts))
    return result


def _merge(adapter: Adapter, parts: Sequence[Array | Deferred]) -> Array:
    weight, a, b = map(np.asarray, parts)
    return adapter.merged(weight, a, b)


def _predicting(model: Graph, artifact: Artifact) -> Graph:
    """What `predict` computes: the artifact's outputs, and the inputs that they depend on."""
    outputs = {port.name: model.outputs[port.name] for port in artifact.manifest.outputs}
    pruned = prune(model.with_(outputs=outputs, updates={}))
    read = {*(value for node in pruned.nodes for value in node.inputs), *outputs.values()}
    return pruned.with_(inputs=tuple(value for value in model.inputs if value in read))


def _save(path: Path, tensors: Lazily, lora: Lora | None) -> Path:
    """Safetensors; with adapters the header says rank and alpha, without which nobody could apply them. Where ranks
    differ, the matrices say their own."""
    metadata = {"format": "pt"}
    if lora is not None:
        metadata |= {"lora_rank": str(lora.rank), "lora_alpha": f"{lora.alpha:g}"}
    return write_whole(path, Tensors(tensors, metadata).chunks())


__all__ = ["FORMATS", "Weights", "export"]
