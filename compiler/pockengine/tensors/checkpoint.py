"""A checkpoint as Hugging Face's libraries write it: safetensors files, of a large model several with an index.

The index says which of the files (shards) beside it holds a tensor: {"weight_map": {NAME: FILE}}. What it and the
shards say is checked before a tensor is read; nothing but their headers is read here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from ..errors import ModelError
from ..ir import Array
from .file import mapped_tensors, unique

_INDEX, _SHARD = ".safetensors.index.json", ".safetensors"
_WHOLE = f"model{_SHARD}"
_MOST_INDEX = 100_000_000
"""Bytes; the index of a model of 100,000 tensors has 10 MB."""


def read_checkpoint(path: Path) -> dict[str, Array]:
    """The tensors of a checkpoint by name, memory-mapped: who writes into one writes into memory of his own.

    path  a folder with an index or one safetensors file in it, such an index, or such a file

    Raises ModelError."""
    file = _entry(path) if path.is_dir() else path
    if not file.name.endswith(_INDEX):
        return _tensors(file)
    shards = _shards(file)
    tensors: dict[str, Array] = {}
    for shard in dict.fromkeys(shards.values()):
        held = _tensors(file.parent / shard)
        for name in [name for name, where in shards.items() if where == shard]:
            if name not in held:
                raise ModelError(f"'{file.name}' says that '{name}' is in '{shard}', which does not hold it")
            tensors[name] = held[name]
    return tensors


def _entry(folder: Path) -> Path:
    """The file of a folder that says where the tensors are."""
    indices = sorted(folder.glob(f"*{_INDEX}"))
    files = [folder / _WHOLE] if (folder / _WHOLE).is_file() else sorted(folder.glob(f"*{_SHARD}"))
    found = indices or files
    if not found:
        raise ModelError(f"the folder '{folder}' has no safetensors file: save the model with save_pretrained")
    if len(found) > 1:
        names = ", ".join(f"'{file.name}'" for file in found[:3])
        raise ModelError(f"the folder '{folder}' has several candidates ({names}): name the file or the index to read")
    return found[0]


def _shards(file: Path) -> Mapping[str, str]:
    """Tensor -> name of the shard beside the index that holds it."""
    try:
        with file.open("rb") as opened:
            text = opened.read(_MOST_INDEX + 1)
    except OSError as error:
        raise ModelError(f"cannot read the index '{file}': {error.strerror}") from None
    if len(text) > _MOST_INDEX:
        raise ModelError(f"the index '{file}' has more than {_MOST_INDEX} bytes")
    try:
        shards = json.loads(text, object_pairs_hook=unique)["weight_map"]
    except (KeyError, TypeError, ValueError, RecursionError):
        raise ModelError(f"'{file}' is no index of safetensors files: it has no 'weight_map'") from None
    if not isinstance(shards, dict) or not shards:
        raise ModelError(f"the 'weight_map' of '{file}' must be tensors and the files that hold them")
    for name, shard in shards.items():
        if not isinstance(shard, str) or Path(shard).name != shard or "\\" in shard or not shard.endswith(_SHARD):
            raise ModelError(f"'{file}' has '{name}' in {shard!r}, and a shard is a {_SHARD} file beside the index")
    return shards


def _tensors(file: Path) -> dict[str, Array]:
    try:
        return mapped_tensors(file)
    except ValueError as error:
        raise ModelError(f"'{file}' is not a whole safetensors file: {error}") from None
    except FileNotFoundError:
        raise ModelError(f"there is no file of weights '{file}'") from None
    except OSError as error:
        raise ModelError(f"cannot read the weights '{file}': {error.strerror}") from None
