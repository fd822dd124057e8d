"""A loss of the user's own: an ONNX file beside the recipe, or a Python function of tensors.

A recipe may come from somebody else, so parsing one never reads a file or imports a module: a loss is a reference until
`read_beside` or `imported` is called by whoever trusts it that far. `binding` makes a graph of it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from ...errors import RecipeError
from ...ir import DType, Graph
from ..fields import as_text, as_texts, describe
from ..keys import canonical, key, keys_of, read_keys
from ..named import import_named, parts_of
from .kinds import Loss

MOST_BYTES = 256 << 20
"""Of a loss file: the networks that perceptual losses compare with stay below it."""


def _module(value: object, where: str) -> str:
    parts_of(value, where)
    return as_text(value, where)


def _digest(value: object, where: str) -> str:
    if not isinstance(value, str) or len(value) != 64 or not set(value) <= set("0123456789abcdef"):
        raise RecipeError(f"{where} must be 64 hexadecimal digits, not {describe(value)}")
    return value


def _targets(value: object, where: str) -> tuple[tuple[str, str], ...]:
    """Types as texts; of an example (a tensor or an array), its own."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise RecipeError(f"{where} must say the type of each target, as in {{labels: 'i64[batch]'}}")
    return tuple((name, _type_text(given, f"{where}.{name}")) for name, given in value.items())


def _type_text(value: object, where: str) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        name = str(value.dtype).removeprefix("torch.")
        try:
            return f"{DType.of(name).value}[{','.join(map(str, value.shape))}]"  # type: ignore[arg-type]
        except (KeyError, TypeError):
            raise RecipeError(f"{where} has elements of type {name}, which cannot be an input") from None
    text = as_text(value, where).replace(" ", "")
    name, bracket, rest = text.partition("[")
    sizes = rest.removesuffix("]").split(",") if rest != "]" else []
    known = name in {dtype.value for dtype in DType if dtype is not DType.BIT}
    if not known or not bracket or not rest.endswith("]") or not all(_is_size(size) for size in sizes):
        raise RecipeError(f"{where} must be a type such as 'i64[batch]' or 'f32[batch,10]', not '{text[:80]}'")
    return text


def _is_size(text: str) -> bool:
    return text == "batch" or (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0)


@dataclass(frozen=True)
class LossGraph(Loss):
    """A loss that the user brings.

    onnx     the file's path, from the recipe's folder
    module   `package.module:function`, or what a function given in Python is called
    inputs   what the loss reads, in the order of its own inputs: outputs of the model, inputs of the model, or new
             inputs, which are targets; None: what it calls them itself
    targets  name -> type of what is neither an output nor an input of the model, as in `i64[batch,16]`; a file says it
    sha256   digest of the file, or of the graph made of the function
    content, function, graph  what has been read, imported, and made for one model; not part of the recipe's text"""

    name: ClassVar[str] = "graph"

    output: str | None = field(default=None)
    target: str | None = field(default=None)
    mask: str | None = field(default=None)
    onnx: str | None = key(as_text, None, only=("onnx",))
    module: str | None = key(_module, None, only=("module",))
    inputs: tuple[str, ...] | None = key(as_texts, None)
    targets: tuple[tuple[str, str], ...] = key(_targets, (), plain=dict, always=False, only=("module",))
    sha256: str | None = key(_digest, None)
    content: bytes | None = field(default=None, compare=False, repr=False)
    function: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    graph: Graph | None = field(default=None, compare=False, repr=False)

    @property
    def called(self) -> str:
        """How error messages name it."""
        return f"the loss '{self.onnx or self.module}'"

    def reads(self, outputs: Collection[str]) -> tuple[str, ...]:
        """The model's outputs among what it reads."""
        if self.inputs is None:
            raise RecipeError(f"{self.called} has not been made for a model yet: use the recipe's `bound(model)`")
        read = tuple(name for name in self.inputs if name in outputs)
        if not read:
            raise RecipeError(
                f"{self.called} reads {', '.join(self.inputs)}, and the model has the outputs {', '.join(outputs)}: "
                "say what it reads in the order of its inputs, as in "
                f"'inputs: [{', '.join([*outputs][:1] + list(self.inputs[1:]))}]'"
            )
        return read

    def to_mapping(self) -> dict[str, Any]:
        """What a recipe file says of it, with the digest once the content is known."""
        return canonical(self)

    def read_beside(self, folder: Path) -> LossGraph:
        """With the content of its file, which must lie in `folder`. Raises RecipeError."""
        if self.onnx is None:
            return self
        content = _read(folder, self.onnx)
        digest = hashlib.sha256(content).hexdigest()
        if self.sha256 not in (None, digest):
            raise RecipeError(
                f"{self.called} is not the file that the recipe means: its digest is {digest[:12]}…, not "
                f"{str(self.sha256)[:12]}…"
            )
        return replace(self, content=content, sha256=digest)

    def imported(self, folder: Path) -> LossGraph:
        """With the function that `module` names, in `folder` or an installed package: for callers who trust the recipe
        with their process. Raises RecipeError."""
        if self.module is None or self.function is not None:
            return self
        return replace(self, function=_import(self.module, folder))


def loss_graph_of(value: Mapping[Any, Any], where: str) -> LossGraph:
    """From `{onnx, …}` or `{module, …}`; nothing is read or imported. Raises RecipeError."""
    kind = "onnx" if "onnx" in value else "module"
    optional = set(keys_of(LossGraph, kind)) - {kind}
    said = {name: item for name, item in value.items() if item is not None or name not in optional}
    given: dict[str, Any] = {}
    if kind == "module" and callable(value[kind]):
        function = said.pop(kind)
        given = {"module": getattr(function, "__qualname__", type(function).__name__), "function": function}
    elif kind == "module" and isinstance(value[kind], str) and "sha256" in value:
        given["module"] = as_text(said.pop(kind), f"{where}.module")  # what an artifact says of a function
    return LossGraph(**read_keys(LossGraph, said, where, kind=kind), **given)


def _read(folder: Path, name: str) -> bytes:
    """The bytes of a regular file inside the folder. A recipe may be written by somebody who wants another file of this
    machine read, or a pipe that never ends."""
    where = f"the loss file '{name}'"
    home = folder.resolve()
    path = home / name
    if "\0" in name or Path(name).is_absolute() or ".." in Path(name).parts:
        raise RecipeError(f"{where} must lie in the recipe's own folder: name it without '..' and not from the root")
    try:
        if path.resolve() != path:
            raise RecipeError(f"{where} is reached through a link: put the file itself into the recipe's folder")
        if not stat.S_ISREG(path.stat().st_mode):
            raise RecipeError(f"{where} is not a file")
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            about = os.fstat(file.fileno())
            if about.st_size > MOST_BYTES:
                raise RecipeError(f"{where} has {about.st_size:,} bytes; a loss may have {MOST_BYTES:,}")
            return file.read(MOST_BYTES)
    except FileNotFoundError:
        raise RecipeError(f"there is no {where[4:]}: it is looked for in the recipe's own folder") from None
    except OSError as error:
        raise RecipeError(f"cannot read {where}: {error.strerror}") from None


def _import(text: str, folder: Path) -> Callable[..., Any]:
    found = import_named(text, folder, "loss.module", "loss")
    if isinstance(found, type):
        found = found()
    if not callable(found):
        raise RecipeError(f"the loss '{text}' is {type(found).__name__}, not a function of tensors")
    return found  # type: ignore[no-any-return]
