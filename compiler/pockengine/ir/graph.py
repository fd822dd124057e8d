"""The one intermediate representation: an immutable, topologically ordered SSA graph of tensors with static shapes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .regions import RegionKind
from .types import TensorType

Attr = Any
"""A JSON-like value: int, float, str, bool, or a tuple of ints or strings. What each op has is said by its record,
which mypy cannot see, so the accessors of the ops narrow it."""
Attrs = Mapping[str, Attr]
Array = np.ndarray[Any, Any]

PHASES = ("forward", "backward", "update")


@dataclass(frozen=True, eq=False)
class Value:
    """One tensor. Compared by identity; its name is unique in its graph."""

    name: str
    type: TensorType

    def __repr__(self) -> str:
        return f"%{self.name}:{self.type}"


@dataclass(frozen=True, eq=False)
class Node:
    """One operation. `body` is set only for regions; `phase` says which part of the step it belongs to; `origin` is the
    name of the user's node or parameter it came from, for error messages and profiles. Of an `inferred` node the types
    are known to be what its op's record infers: who made it has asked the record. No copy is, but of `substitute`."""

    op: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    attrs: Attrs = field(default_factory=dict)
    body: Graph | None = None
    phase: str = "forward"
    origin: str = ""
    inferred: bool = field(default=False, init=False, repr=False)

    @property
    def output(self) -> Value:
        """The only output."""
        (value,) = self.outputs
        return value

    @property
    def region_kind(self) -> RegionKind | None:
        """What a region promises; None for a node that is no region."""
        return None if self.body is None else RegionKind(self.attrs["kind"])


@dataclass(frozen=True, eq=False)
class Graph:
    """A computation.

    inputs     what the caller gives at each step
    params     the model's tensors, named as the user's framework names them; their contents are in `data`
    states     optimizer state -> what it holds before the first step: a number, or the contents of a parameter
    consts     small tensors known at compile time
    outputs    result name -> value
    updates    parameter or state -> the value it has after the step
    data       parameter name -> contents (often memory-mapped); not part of the text form
    untrained  tensor of the user's module that the framework does not train -> why, as the end of a sentence ("is a
               buffer"); some are in no node and so not among `params`. Not part of the text form
    draws      part of the user's module that draws random numbers of its own in training -> its class: in evaluation it
               draws none, and so does the graph. Not part of the text form
    """

    name: str
    inputs: tuple[Value, ...] = ()
    params: tuple[Value, ...] = ()
    states: Mapping[Value, float | Value] = field(default_factory=dict)
    consts: Mapping[Value, Array] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()
    outputs: Mapping[str, Value] = field(default_factory=dict)
    updates: Mapping[Value, Value] = field(default_factory=dict)
    data: Mapping[str, Array] = field(default_factory=dict)
    untrained: Mapping[str, str] = field(default_factory=dict)
    draws: Mapping[str, str] = field(default_factory=dict)

    @property
    def batch(self) -> int:
        """Samples that the inputs hold: the greatest number of equal parts into which the first axes of all of them can
        be cut. An input may have several rows a sample (the patches of an image)."""
        return max(1, math.gcd(*(value.type.shape[0] for value in self.inputs if value.type.rank)))

    def sources(self) -> Iterator[Value]:
        """Values that exist before the first node: inputs, params, states, consts."""
        yield from self.inputs
        yield from self.params
        yield from self.states
        yield from self.consts

    def values(self) -> Iterator[Value]:
        """Every value, in definition order."""
        yield from self.sources()
        for node in self.nodes:
            yield from node.outputs

    def results(self) -> tuple[Value, ...]:
        """The values that must survive the last node: outputs and new contents of updated tensors."""
        return (*self.outputs.values(), *self.updates.values())

    def producers(self) -> dict[Value, Node]:
        """Value -> the node that computes it (sources are absent)."""
        return {value: node for node in self.nodes for value in node.outputs}

    def users(self) -> dict[Value, list[Node]]:
        """Value -> the nodes that read it, in order, each once."""
        users: dict[Value, list[Node]] = {value: [] for value in self.sources()}
        for node in self.nodes:
            for value in node.inputs if len(node.inputs) == 1 else dict.fromkeys(node.inputs):
                users[value].append(node)
            for value in node.outputs:
                users[value] = []
        return users

    def param(self, name: str) -> Value:
        """The parameter called `name`; KeyError when there is none."""
        for value in self.params:
            if value.name == name:
                return value
        raise KeyError(name)

    def with_(self, **changes: Any) -> Graph:
        """A copy with some fields replaced."""
        return replace(self, **changes)
