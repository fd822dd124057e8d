"""Models of 16-bit floats: computed in f32, the formats in which products multiply being the target's choice.

What is trained is f32, so that small updates are not lost (Micikevicius et al., "Mixed Precision Training", 2018).
Frozen parameters stay as they are stored where the backend reads them so."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import cast

import numpy as np

from ..ir import Array, Builder, DType, Graph, Node, Value, verify
from ..ops import Emitter, is_view, reads_rows
from ..recipe import Scheme
from ..tensors import Deferred, let_go


def widened(model: Graph, scheme: Scheme, stored: Collection[DType]) -> Graph:
    """The model with f32 in the place of every 16-bit float, but for parameters of the types `stored` that stay frozen:
    those are read as they are. Contents that become f32 are converted when somebody looks at them.

    %y = matmul(%x, %w)   ->   %v = cast(%w; to=f32); %y = matmul(%x, %v)       all but %w is f32 now
    """
    if not any(_is_narrow(value) for value in model.values()) or any(map(_reads_bits, model.nodes)):
        return model
    walk = _Widening(model, {value for value in model.params if _stays(value, scheme, stored)})
    for node in model.nodes:
        walk.take(node)
    return verify(walk.finish(), "widened")


def _is_narrow(value: Value) -> bool:
    return value.type.dtype.is_narrow


def _reads_bits(node: Node) -> bool:
    """Whether a node is about the very bits of a 16-bit float."""
    return node.op == "bitcast" and any(map(_is_narrow, (*node.inputs, *node.outputs)))


def _stays(value: Value, scheme: Scheme, stored: Collection[DType]) -> bool:
    return value.type.dtype in stored and value.name not in scheme.trained()


class _Widening:
    """A walk through a model. `kept`: parameters that stay as they are stored."""

    def __init__(self, model: Graph, kept: Collection[Value]) -> None:
        self._model = model
        changed = [value for value in model.sources() if _is_narrow(value) and value not in kept]
        self._new = {value: Value(value.name, value.type.with_dtype(DType.F32)) for value in changed}
        self._builder = Builder(model.name)
        self._builder.adopt_sources(
            model.with_(
                inputs=tuple(self._new.get(value, value) for value in model.inputs),
                params=tuple(self._new.get(value, value) for value in model.params),
                consts={self._new.get(value, value): self._const(value, x) for value, x in model.consts.items()},
                data={name: self._contents(model.param(name), array) for name, array in model.data.items()},
            )
        )
        self._emitter = Emitter(self._builder)
        self._read: dict[Value, Value] = {}

    def take(self, node: Node) -> None:
        """Append the node, in f32."""
        self._builder.phase, self._builder.origin = node.phase, node.origin
        inputs = [self._new.get(value, value) for value in node.inputs]
        if (reads_rows(node) or is_view(node)) and _is_narrow(inputs[0]):
            outputs = self._emitter.multi(node.op, inputs, **node.attrs)
        elif inputs == list(node.inputs) and not any(map(_is_narrow, (*node.inputs, *node.outputs))):
            self._builder.keep(node)
            return
        elif node.op == "cast":
            to = DType(node.attrs["to"])
            outputs = (self._emitter.cast(self._wide(inputs[0]), DType.F32 if to.is_narrow else to),)
        else:
            outputs = self._emitter.multi(node.op, [self._wide(value) for value in inputs], **node.attrs)
        self._new.update(zip(node.outputs, outputs, strict=True))

    def finish(self) -> Graph:
        """The model in f32."""
        self._builder.outputs = {
            name: self._wide(self._new.get(value, value)) for name, value in self._model.outputs.items()
        }
        return self._builder.finish()

    def _wide(self, value: Value) -> Value:
        """The value in f32, one cast for all who read it."""
        if not _is_narrow(value):
            return value
        if value not in self._read:
            self._read[value] = self._emitter.cast(value, DType.F32)
        return self._read[value]

    def _const(self, value: Value, array: Array) -> Array:
        return array.astype(np.float32) if value in self._new else array

    def _contents(self, value: Value, array: Array) -> Array:
        """A parameter's contents, converted each time anew that they are asked for."""
        if value not in self._new:
            return array
        return cast(Array, Deferred(np.dtype(np.float32), array.shape, partial(_in_f32, array)))


def _in_f32(array: Array) -> Array:
    made = array.astype(np.float32)
    let_go(array)
    return made
