"""What an artifact says about itself: `manifest.json` as immutable values, checked when read.

The format is described in docs/reference/binary.md. Knows nothing of archives or of running.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from pockengine.artifact.errors import BadManifestError, UnsupportedFormatError
from pockengine.codegen.backends import DEFAULT
from pockengine.errors import nearest
from pockengine.ir import DType

FORMAT = 3
"""The format version this module reads and writes."""

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Member:
    """Digest and size of one file of the archive."""

    sha256: str
    size: int


@dataclass(frozen=True)
class TensorInfo:
    """A parameter or optimizer state. `trained` is all, channels or frozen; `channels` lists those updated."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    role: str
    trained: str
    channels: tuple[int, ...] | None = None


@dataclass(frozen=True)
class PortInfo:
    """An input or output of the model; the first dimension is the batch."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class InputInfo(PortInfo):
    """An input of the model. A `target` is read by training and evaluation only (labels, a teacher's outputs, masks);
    an `optional` one may be left out: the samples then count 1 each."""

    target: bool
    optional: bool


@dataclass(frozen=True)
class EntryPoints:
    """Members that are run or linked."""

    executable: str = "bin/model"
    library: str = "bin/libmodel.so"
    header: str = "bin/model.h"


@dataclass(frozen=True)
class Manifest:
    """Everything `manifest.json` holds. `target`, `recipe`, `summary` and `programs` are plain JSON objects, as other
    tools read them; `members` is filled by `Artifact.create`. `backend` says who made the program; the file leaves it
    out where that is the default one."""

    name: str
    created_by: Json
    target: Json
    recipe: Json
    threads: int
    summary: Json
    programs: Json
    tensors: tuple[TensorInfo, ...]
    inputs: tuple[InputInfo, ...]
    outputs: tuple[PortInfo, ...]
    entry_points: EntryPoints = EntryPoints()
    members: Mapping[str, Member] = field(default_factory=dict)
    format: int = FORMAT
    backend: str = DEFAULT

    def with_members(self, members: Mapping[str, Member]) -> Manifest:
        """The same manifest over other files."""
        return replace(self, members=dict(members))

    def to_dict(self) -> dict[str, Any]:
        """Plain values only."""
        content = asdict(self)
        if self.backend == DEFAULT:
            del content["backend"]
        return content

    def to_json(self) -> bytes:
        """The file's bytes: the same for equal manifests."""
        return (json.dumps(self.to_dict(), sort_keys=True, indent=1, ensure_ascii=False) + "\n").encode()


def parse(data: bytes) -> Manifest:
    """A manifest from the file's bytes. Raises UnsupportedFormatError or BadManifestError saying where it is wrong."""
    try:
        content = json.loads(data)
    except ValueError as error:
        raise BadManifestError(f"manifest.json is not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise BadManifestError("manifest.json is not a JSON object")
    version = content.get("format")
    if version != FORMAT:
        raise UnsupportedFormatError(
            f"the artifact has format {version!r}, this version reads {FORMAT}; compile it again"
        )
    return _manifest(content)


def _manifest(content: dict[str, Any]) -> Manifest:
    content = {"backend": DEFAULT, **content}
    _exact_keys(content, Manifest, "manifest.json")
    checked: dict[str, Any] = dict(content)
    for key in ("created_by", "target", "recipe", "summary", "programs", "members"):
        _expect(content[key], dict, key)
    for key in ("name", "backend"):
        _expect(content[key], str, key)
    _expect_count(content["threads"], "threads")
    for key in ("name", "triple", "os", "cpu"):
        _expect(content["target"].get(key), str, f"target.{key}")
    checked["tensors"] = tuple(_tensor(item, f"tensors[{i}]") for i, item in enumerate(_list(content, "tensors")))
    checked["inputs"] = tuple(_input(item, f"inputs[{i}]") for i, item in enumerate(_list(content, "inputs")))
    checked["outputs"] = tuple(_port(item, f"outputs[{i}]") for i, item in enumerate(_list(content, "outputs")))
    checked["entry_points"] = _entry_points(content["entry_points"])
    checked["members"] = {name: _member(item, f"members['{name}']") for name, item in content["members"].items()}
    manifest = Manifest(**checked)
    for point in asdict(manifest.entry_points).values():
        if point not in manifest.members:
            raise BadManifestError(f"entry point '{point}' is no member{nearest(point, manifest.members)}")
    return manifest


def _tensor(item: Any, where: str) -> TensorInfo:
    _expect(item, dict, where)
    _exact_keys(item, TensorInfo, where)
    _expect_one_of(item["role"], ("param", "state"), f"{where}.role")
    _expect_one_of(item["trained"], ("all", "channels", "frozen"), f"{where}.trained")
    _expect_count(item["nbytes"], f"{where}.nbytes")
    _port({key: item[key] for key in ("name", "dtype", "shape")}, where)
    channels = None if item["channels"] is None else _numbers(item["channels"], f"{where}.channels")
    return TensorInfo(**{**item, "shape": tuple(item["shape"]), "channels": channels})


def _input(item: Any, where: str) -> InputInfo:
    _expect(item, dict, where)
    _exact_keys(item, InputInfo, where)
    for key in ("target", "optional"):
        _expect(item[key], bool, f"{where}.{key}")
    port = _port({key: item[key] for key in ("name", "dtype", "shape")}, where)
    return InputInfo(port.name, port.dtype, port.shape, item["target"], item["optional"])


def _port(item: Any, where: str) -> PortInfo:
    _expect(item, dict, where)
    _exact_keys(item, PortInfo, where)
    _expect(item["name"], str, f"{where}.name")
    _expect_one_of(item["dtype"], tuple(dtype.value for dtype in DType), f"{where}.dtype")
    return PortInfo(item["name"], item["dtype"], _numbers(item["shape"], f"{where}.shape"))


def _member(item: Any, where: str) -> Member:
    _expect(item, dict, where)
    _exact_keys(item, Member, where)
    _expect_count(item["size"], f"{where}.size")
    if not (isinstance(item["sha256"], str) and re.fullmatch("[0-9a-f]{64}", item["sha256"])):
        raise BadManifestError(f"manifest.json: {where}.sha256 is not 64 lower-case hexadecimal digits")
    return Member(item["sha256"], item["size"])


def _entry_points(item: Any) -> EntryPoints:
    _expect(item, dict, "entry_points")
    _exact_keys(item, EntryPoints, "entry_points")
    for key, value in item.items():
        _expect(value, str, f"entry_points.{key}")
    return EntryPoints(**item)


def _exact_keys(item: Mapping[str, Any], kind: type, where: str) -> None:
    known = {entry.name for entry in fields(kind)}
    for key in item:
        if key not in known:
            raise BadManifestError(f"{where} has an unknown key '{key}'{nearest(key, known)}")
    missing = sorted(known - item.keys())
    if missing:
        raise BadManifestError(f"{where} lacks '{missing[0]}'")


def _list(content: Mapping[str, Any], key: str) -> list[Any]:
    _expect(content[key], list, key)
    items: list[Any] = content[key]
    return items


def _numbers(value: Any, where: str) -> tuple[int, ...]:
    _expect(value, list, where)
    for number in value:
        _expect_count(number, where)
    return tuple(value)


def _expect(value: Any, kind: type, where: str) -> None:
    if not isinstance(value, kind):
        wanted = {"dict": "an object", "list": "a list", "str": "text", "bool": "true or false"}[kind.__name__]
        raise BadManifestError(f"manifest.json: {where} must be {wanted}")


def _expect_count(value: Any, where: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadManifestError(f"manifest.json: {where} must hold whole numbers of at least 0")


def _expect_one_of(value: Any, choices: tuple[str, ...], where: str) -> None:
    if value not in choices:
        raise BadManifestError(f"manifest.json: {where} is {value!r}{nearest(str(value), choices)}")
