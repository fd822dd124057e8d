"""Data that stays on this device: named by its owner, read where it lies, never sent anywhere.

`data.json` has the path, which nobody but this device needs to know, beside what the service is told: name, digest,
size, number of samples, and the names, types and shapes of the tensors.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from pock_agent.disk.blobs import file_digest
from pock_agent.disk.directory import StateDirectory
from pock_agent.disk.files import read_json, write_json
from pock_agent.disk.safetensors import MalformedSafetensors, Tensor, count_samples, read_tensors
from pock_agent.errors import AgentError
from pock_agent.values import JsonObject

MAX_DATASETS = 100
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)


@dataclass(frozen=True)
class LocalDataset:
    """One file, as it was when its owner named it. `sha256` is of the whole file, `size` in bytes."""

    name: str
    path: str
    sha256: str
    size: int
    samples: int
    tensors: tuple[Tensor, ...]

    def told(self) -> JsonObject:
        """All that the service is told of it."""
        tensors = [{**asdict(tensor), "shape": list(tensor.shape)} for tensor in self.tensors]
        return {
            "name": self.name,
            "digest": self.sha256,
            "size": self.size,
            "samples": self.samples,
            "tensors": tensors,
        }


class LocalData:
    """The data that this device's owner has named."""

    def __init__(self, directory: StateDirectory) -> None:
        self._path = directory.local_data

    def all(self) -> dict[str, LocalDataset]:
        """By name; an AgentError where the file is damaged."""
        stored = read_json(self._path) or {}
        try:
            return {name: _dataset(name, value) for name, value in sorted(stored.items())}
        except (KeyError, TypeError, ValueError) as error:
            raise AgentError(f"{self._path} is damaged ({error!r}); remove it, and add the data again") from error

    def add(self, name: str, path: Path) -> LocalDataset:
        """Name a file, in place of what had the name before; an AgentError says why it cannot be used."""
        if not NAME.fullmatch(name):
            raise AgentError(f"{name!r} is no name for data: up to 100 letters, digits and _ . - are")
        whole = path.absolute()
        try:
            tensors = read_tensors(whole)
            found = LocalDataset(
                name, str(whole), file_digest(whole), whole.stat().st_size, count_samples(tensors), tensors
            )
        except MalformedSafetensors as error:
            raise AgentError(f"{path} cannot be used as data: {error}") from error
        except OSError as error:
            raise AgentError(f"{path} cannot be read: {error.strerror}") from error
        named = {**self.all(), name: found}
        if len(named) > MAX_DATASETS:
            raise AgentError(f"{MAX_DATASETS} data sets are named here, and no more may be; remove one first")
        self._store(named)
        return found

    def remove(self, name: str) -> None:
        """Forget a name; the file stays. An AgentError if nothing has it."""
        named = self.all()
        if named.pop(name, None) is None:
            raise AgentError(f"no data is named {name!r} here; pock-agent data list shows what is")
        self._store(named)

    def listing(self) -> list[JsonObject]:
        """What the service is told."""
        return [one.told() for one in self.all().values()]

    def _store(self, named: dict[str, LocalDataset]) -> None:
        write_json(self._path, {name: asdict(one) for name, one in named.items()})


def digest_of(listing: list[JsonObject]) -> str:
    """Names a listing, so that the service can say whether it has this one; "" for an empty one."""
    return hashlib.sha256(json.dumps(listing, sort_keys=True).encode()).hexdigest() if listing else ""


def _dataset(name: str, value: JsonObject) -> LocalDataset:
    tensors = tuple(Tensor(str(one["name"]), str(one["dtype"]), tuple(one["shape"])) for one in value["tensors"])
    return LocalDataset(
        name, str(value["path"]), str(value["sha256"]), int(value["size"]), int(value["samples"]), tensors
    )
