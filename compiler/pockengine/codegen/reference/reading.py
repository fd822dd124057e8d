"""Reads what `writing.py` wrote, and believes none of it.

Before anything runs, every place lies within its block, every type is the one that the op's own rule gives, and nothing
is larger than this machine. Raises ArtifactError.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from ... import ops
from ...errors import ArtifactError
from ...ir import Array, Attrs, DType, Graph, Node, TensorType, Value, parse_type
from ...plan.program import Location
from ...plan.space import BLOCKS, IN_MEMORY, Space
from ...targets import ALIGNMENT
from ..model import IN_FILE, Generation, Model, StreamedRows, Tensor
from .writing import FORMAT, PROGRAM

PROGRAMS = ("train", "eval", "predict", "accumulate", "norms", "generate")
MOST_AXES = 32
READ = ("loss", "sample_loss", "loss_weight", "correct", "counted")
LAST_BATCHES = ("wrap", "drop", "partial")
Json = Mapping[str, Any]
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Place:
    """Where a tensor lies: a block of memory, bytes from its beginning, and its type."""

    space: Space
    offset: int
    type: TensorType


@dataclass(frozen=True)
class Step:
    """One node, the places of what it reads, and of what it writes."""

    node: Node
    reads: tuple[Place, ...]
    writes: tuple[Place, ...]


@dataclass(frozen=True)
class Script:
    """One program: its steps in order, and where its outputs are then."""

    steps: tuple[Step, ...]
    outputs: Mapping[str, Place]
    arena_bytes: int


@dataclass(frozen=True)
class Scripted:
    """A model, its programs as steps; `model.programs` is empty."""

    model: Model
    scripts: Mapping[str, Script] = field(default_factory=dict)


def parse(data: bytes) -> Scripted:
    """The model that `render` wrote. Raises ArtifactError, whatever else was written."""
    try:
        content = json.loads(data)
        if _get(content, "format", int) != FORMAT:
            raise _Wrong(f"it has format {content['format']}, this version reads {FORMAT}")
        return _Reader(content).scripted()
    except _Wrong as error:
        raise ArtifactError(f"{PROGRAM} cannot be run: {error}") from None
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError, AttributeError) as error:
        raise ArtifactError(f"{PROGRAM} is not a program: {type(error).__name__}: {error}") from None


class _Wrong(Exception):
    """What is wrong, as the end of a sentence."""


def _get(content: Any, key: str, kind: type[Kind]) -> Kind:
    """A field of an object, of the right type."""
    if not isinstance(content, dict) or key not in content:
        raise _Wrong(f"it lacks '{key}'")
    value = content[key]
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise _Wrong(f"'{key}' is no {kind.__name__}: {str(value)[:40]}")
    return value


class _Reader:
    """Holds what places are checked against."""

    def __init__(self, content: Json) -> None:
        self._content = content
        self._memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        spaces = _get(content, "spaces", dict)
        here = [space for space in BLOCKS if space in IN_MEMORY or space in spaces]
        self._sizes = {space: _get(spaces, space, int) for space in here}
        if min(self._sizes.values()) < 0 or sum(self._sizes.values()) > self._memory:
            raise _Wrong(f"it takes {sum(self._sizes.values())} bytes, and this machine has {self._memory}")
        self._alignment = _get(content, "alignment", int) if "alignment" in content else ALIGNMENT
        if self._alignment < 1:
            raise _Wrong(f"its alignment is {self._alignment} bytes")

    def scripted(self) -> Scripted:
        content = self._content
        counts = {key: _get(content, key, int) for key in ("threads", "batch", "accumulate_steps")}
        if min(counts.values()) < 1:
            raise _Wrong(f"its threads, batch and accumulate_steps are not at least 1: {counts}")
        norm_batches = _get(content, "norm_batches", int) if "norm_batches" in content else 0
        if norm_batches < 0:
            raise _Wrong(f"its norm_batches is {norm_batches}")
        last_batch = _get(content, "last_batch", str)
        if last_batch not in LAST_BATCHES:
            raise _Wrong(f"its last_batch is '{last_batch}'")
        params = tuple(self._tensor(one, may_stay=True) for one in _get(content, "params", list))
        model = Model(
            name=_get(content, "name", str),
            target=_get(content, "target", str),
            threads=counts["threads"],
            batch=counts["batch"],
            params=params,
            states=tuple(self._state(one, params) for one in _get(content, "states", list)),
            consts=tuple(map(self._tensor, _get(content, "consts", list))),
            inputs=tuple(map(self._input, _get(content, "inputs", list))),
            programs={},
            space_bytes=self._sizes,
            alignment=self._alignment,
            predicted_peak_bytes=_get(content, "predicted_peak_bytes", int),
            accumulate_steps=counts["accumulate_steps"],
            norm_batches=norm_batches,
            last_batch=last_batch,
            perplexity=_get(content, "perplexity", bool),
            streamed=tuple(self._streamed(one, params) for one in _get(content, "lookups", list)),
            generation=self._generation(content),
        )
        programs = _get(content, "programs", dict)
        if unknown := programs.keys() - set(PROGRAMS):
            raise _Wrong(f"it has a program '{min(unknown)}'")
        scripts = {name: self._script(name, one) for name, one in programs.items()}
        for name, script in scripts.items():
            _check_outputs(name, script, model.batch)
        if ("generate" in scripts) != (model.generation is not None):
            raise _Wrong("it says no token's place for the program 'generate', or has no such program")
        return Scripted(model, scripts)

    def _type(self, text: object) -> TensorType:
        """A type that is not larger than memory."""
        if not isinstance(text, str):
            raise _Wrong(f"a type is {text!r}")
        found = parse_type(text)
        odd = str(found) != text or min(found.shape, default=0) < 0 or found.rank > MOST_AXES
        if odd or found.nbytes > self._memory:
            raise _Wrong(f"a tensor is {text[:80]}")
        return found

    def _place(self, item: object) -> Place:
        """[space, offset, type], within the block."""
        if not isinstance(item, list) or len(item) != 3 or item[0] not in self._sizes or type(item[1]) is not int:
            raise _Wrong(f"a place is {str(item)[:80]}")
        place = Place(Space(item[0]), item[1], self._type(item[2]))
        outside = place.offset < 0 or place.offset + place.type.nbytes > self._sizes[place.space]
        if outside or place.offset % self._alignment:
            size = self._sizes[place.space]
            raise _Wrong(f"{place.type} at {place.offset} is not within the {size} bytes of '{place.space}'")
        return place

    def _tensor(self, item: object, may_stay: bool = False) -> Tensor:
        """A named tensor; with `may_stay` it may be left in the weights file."""
        where = _get(item, "place", list)
        type = self._type(_get(item, "type", str))
        in_file = may_stay and where == [IN_FILE.space, IN_FILE.offset]
        place = None if in_file else self._place([*where, str(type)])
        location = IN_FILE if place is None else Location(place.space, place.offset)
        return Tensor(_get(item, "name", str), type, location, trained=_get(item, "trained", bool))

    def _state(self, item: object, params: tuple[Tensor, ...]) -> Tensor:
        tensor, average_of = self._tensor(item), None
        if isinstance(item, dict) and item.get("average_of") is not None:
            average_of = _get(item, "average_of", int)
            if not 0 <= average_of < len(params) or tensor.type != params[average_of].type.widened():
                raise _Wrong(f"the state '{tensor.name}' is the average of no parameter of its type")
        return replace(tensor, fill=_get(item, "fill", float), average_of=average_of)

    def _input(self, item: object) -> Tensor:
        limit, ignored = _get(item, "limit", int), _get(item, "ignored", int)
        return replace(self._tensor(item), target=_get(item, "target", str), limit=limit, ignored=ignored)

    def _generation(self, content: Json) -> Generation | None:
        """Where the program of one token reads it: whole numbers, each below a limit."""
        if "generation" not in content:
            return None
        token, position = (self._input(_get(content["generation"], name, dict)) for name in ("token", "position"))
        for one, shape in ((token, (1, 1)), (position, (1,))):
            if one.type.shape != shape or one.type.dtype.is_float or one.limit < 1:
                raise _Wrong(f"'{one.name}' is {one.type} below {one.limit}")
        return Generation(token, position)

    def _streamed(self, item: object, params: tuple[Tensor, ...]) -> StreamedRows:
        table, type = _get(item, "table", int), self._type(_get(item, "type", str))
        if not 0 <= table < len(params) or not params[table].type.size or type.dtype.is_float:
            raise _Wrong("it looks up rows of no table")
        if not params[table].type.rank:
            raise _Wrong("it looks up rows of a number")
        rows = params[table].type.with_shape((type.size, *params[table].type.shape[1:]))
        indices = self._place([*_get(item, "indices", list), str(type)])
        place = self._place([*_get(item, "rows", list), str(rows)])
        return StreamedRows(table, Location(indices.space, indices.offset), type, Location(place.space, place.offset))

    def _script(self, name: str, content: object) -> Script:
        stated = enumerate(_get(content, "steps", list))
        steps = tuple(self._step(f"step {index} of {name}", one) for index, one in stated)
        outputs = {key: self._place(place) for key, place in _get(content, "outputs", dict).items()}
        return Script(steps, outputs, _get(content, "arena_bytes", int))

    def _step(self, where: str, content: object) -> Step:
        reads = tuple(map(self._place, _get(content, "reads", list)))
        writes = tuple(map(self._place, _get(content, "writes", list)))
        inputs = tuple(Value(f"x{index}", place.type) for index, place in enumerate(reads))
        outputs = tuple(Value(f"y{index}", place.type) for index, place in enumerate(writes))
        body = None
        if isinstance(content, dict) and "body" in content:
            body = self._body(where, content["body"])
            stated = [value.type for value in (*body.inputs, *body.outputs.values())]
            if stated != [value.type for value in (*inputs, *outputs)]:
                raise _Wrong(f"the body of {where} has other types than its places")
        op, origin = _get(content, "op", str), _get(content, "origin", str)
        node = Node(op, inputs, outputs, _attrs(content), body, origin=origin)
        if body is None:
            _check_types(where, node)
        return Step(node, reads, writes)

    def _body(self, where: str, content: object) -> Graph:
        """A region's computation, which has no regions in it."""
        inputs = [Value(f"i{n}", self._type(text)) for n, text in enumerate(_get(content, "inputs", list))]
        consts: dict[Value, Array] = {}
        for n, (text, contents) in enumerate(_get(content, "consts", list)):
            type = self._type(text)
            consts[Value(f"c{n}", type)] = np.array(contents, type.dtype.numpy).reshape(type.shape)
        values, nodes = [*inputs, *consts], list[Node]()
        for item in _get(content, "nodes", list):
            read = tuple(_numbered(values, n) for n in _get(item, "reads", list))
            made = [self._type(text) for text in _get(item, "writes", list)]
            written = tuple(Value(f"v{len(values) + n}", type) for n, type in enumerate(made))
            nodes.append(Node(_get(item, "op", str), read, written, _attrs(item)))
            _check_types(where, nodes[-1])
            values += written
        outputs = {str(n): _numbered(values, one) for n, one in enumerate(_get(content, "outputs", list))}
        return Graph("body", tuple(inputs), consts=consts, nodes=tuple(nodes), outputs=outputs)


def _check_outputs(name: str, script: Script, batch: int) -> None:
    """Those that a run reads itself: one loss of a step, and one number for each sample of an evaluation."""
    for key, place in script.outputs.items():
        wanted = () if key == "loss" else (batch,)
        if name == "generate" and (key != "logits" or place.type.rank != 3 or place.type.dtype is not DType.F32):
            raise _Wrong(f"the output '{key}' of {name} is {place.type}")
        if name not in ("predict", "generate") and key in READ and place.type != TensorType(DType.F32, wanted):
            raise _Wrong(f"the output '{key}' of {name} is {place.type}")


def _numbered(values: list[Value], number: object) -> Value:
    if type(number) is not int or not 0 <= number < len(values):
        raise _Wrong(f"a body reads value {str(number)[:20]} of {len(values)}")
    return values[number]


def _attrs(content: object) -> Attrs:
    return {key: _attr(value) for key, value in _get(content, "attrs", dict).items()}


def _attr(value: object) -> Any:
    """Lists are tuples again, and nothing else is nested."""
    if isinstance(value, list):
        return tuple(map(_attr, value))
    if not isinstance(value, (bool, int, float, str)):
        raise _Wrong(f"an attribute is {str(value)[:40]}")
    return value


def _check_types(where: str, node: Node) -> None:
    """The op's own rule gives the stated types. Rules take their attributes for granted, so they may fail anyhow."""
    try:
        found = tuple(ops.get(node.op).infer([value.type for value in node.inputs], node.attrs))
    except Exception as error:
        raise _Wrong(f"{where} is no {node.op}: {error}") from None
    if found != tuple(value.type for value in node.outputs):
        raise _Wrong(f"{where} states other types than {node.op} has: {', '.join(map(str, found))}")


__all__ = ["Place", "Script", "Scripted", "Step", "parse"]
