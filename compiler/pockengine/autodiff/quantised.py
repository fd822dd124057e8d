"""Frozen weights of a model in block-quantised numbers: which can be, the model that reads them, and back.

A weight becomes two parameters, `NAME.int4` (or `.int8`, `.fp8`) and `NAME.scales`, and every product that read it
reads `dequantize_blocks` of them, stored with the axis that is summed over last. Nothing else of the model changes."""

from __future__ import annotations

import dataclasses
import math
import weakref
import zlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import RecipeError, nearest
from ..ir import Array, DType, Graph, Node, TensorType, Value, verify
from ..ops import Convolution, Emitter, Rewriting, convolution_of, prune, reads_rows
from ..ops.fp8 import MATMUL
from ..ops.quantised import ALIGNED, DEQUANTIZE, BlockFormat, dequantize, quantize, relative_error
from ..recipe import FROZEN, Frozen, Scheme, is_adapter, matches, module_of
from ..recipe.resolution.channels import Axes, contracted, multiplies, readers

LEAST_BYTES = 64 << 10
"""Weights that nobody named are quantised above this size: small ones save little."""
SCALES = ".scales"


@dataclass(frozen=True)
class Quantised:
    """How one weight is stored. `perm` are its axes as they are stored: the row's first, those summed over last;
    `error` is the root mean square of the error over that of the weight."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    perm: tuple[int, ...]
    format: BlockFormat
    block: int
    error: float

    @property
    def names(self) -> tuple[str, str]:
        """Of the packed codes and of the scales."""
        return f"{self.name}.{self.format}", self.name + SCALES

    def to_mapping(self) -> dict[str, Any]:
        return {
            "dtype": self.dtype,
            "shape": list(self.shape),
            "perm": list(self.perm),
            "format": self.format.value,
            "bits": self.format.bits,
            "block": self.block,
            "relative_rms_error": self.error,
        }

    @classmethod
    def of(cls, name: str, mapping: Mapping[str, Any]) -> Quantised:
        """What `to_mapping` made."""
        shape, perm = tuple(mapping["shape"]), tuple(mapping["perm"])
        format, error = BlockFormat.of(mapping), mapping["relative_rms_error"]
        return cls(name, mapping["dtype"], shape, perm, format, mapping["block"], error)

    def restored(self, tensors: Mapping[str, Array]) -> Array:
        """The weight as the user's framework stores it, out of its packed codes and scales."""
        packed, scales = (tensors[name] for name in self.names)
        stored = dequantize(packed, scales, self.format, self.block, [self.shape[axis] for axis in self.perm])
        weight = np.transpose(stored, np.argsort(self.perm))
        return np.asarray(weight, order="C").astype(DType(self.dtype).numpy)


@dataclass(frozen=True, eq=False)
class _Read:
    """One use of a weight: the node's result, which operand it is, the axes of the weight as they are stored, the shape
    that the decompressed operand has, and whether it is a table of which rows are read."""

    output: Value
    operand: int
    perm: tuple[int, ...]
    shape: tuple[int, ...]
    rows: bool


def with_quantised(model: Graph, frozen: Frozen, scheme: Scheme) -> tuple[Graph, tuple[Quantised, ...]]:
    """The model with its frozen weights quantised, and how each is stored. Raises RecipeError for a pattern that
    matches no weight, or none that can be quantised.

    %y = matmul(%x, %w)   ->   %d = dequantize_blocks(%w.int4, %w.scales); %y = matmul(%x, %d)
    """
    chosen = _chosen(model, frozen, scheme)
    taken = {value.name for value in model.params}
    data, made, new = dict(model.data), list[Quantised](), dict[Value, tuple[Value, Value]]()
    reads: dict[Value, tuple[Value, _Read]] = {}
    for value, uses in chosen.items():
        stored = _described(value, uses[0], frozen)
        if taken.intersection(stored.names):
            raise RecipeError(f"the model has a tensor '{stored.names[0]}' already: leave '{value.name}' out of frozen")
        done = _codes_of(data[value.name], stored, uses[0].shape[0])
        made.append(dataclasses.replace(stored, error=done.error))
        packed, scales = (
            Value(name, TensorType(DType.of(array.dtype), array.shape))
            for name, array in zip(stored.names, (done.packed, done.scales), strict=True)
        )
        new[value] = (packed, scales)
        data |= dict(zip(stored.names, (done.packed, done.scales), strict=True))
        del data[value.name]
        if any(use.output in reads for use in uses):
            raise RecipeError(
                f"'{value.name}' is multiplied with another quantised weight: leave it out of frozen.params"
            )
        reads |= {use.output: (value, use) for use in uses}
    params = tuple(one for value in model.params for one in new.get(value, (value,)))
    extended = model.with_(params=(*model.params, *(one for pair in new.values() for one in pair)), data=data)

    def rule(e: Emitter, node: Node) -> Sequence[Value] | None:
        if node.outputs[0] not in reads:
            return None
        value, use = reads[node.outputs[0]]
        return [_read(e, node, new[value], use, frozen)]

    walk = Rewriting(extended)
    for node in walk:
        walk.replace(rule(walk.emitter, node))
    quantised = prune(walk.graph()).with_(params=params)
    return verify(quantised, "quantised weights"), tuple(made)


def _described(value: Value, use: _Read, frozen: Frozen) -> Quantised:
    """How the weight is stored, its error left open."""
    type = value.type
    block = frozen.block_of(math.prod(use.shape[1:]))
    return Quantised(value.name, type.dtype.value, type.shape, use.perm, frozen.format, block, 0.0)


@dataclass(frozen=True)
class _Codes:
    """A weight's codes, scales and relative error; `checksum` is that of the weight."""

    packed: Array
    scales: Array
    error: float
    checksum: int


_DONE: dict[tuple[Hashable, ...], _Codes] = {}
"""By the weight's array, as long as that exists, and how it is stored: a model is planned for several recipes."""


def _codes_of(weight: Array, stored: Quantised, rows: int) -> _Codes:
    """The weight quantised, once as long as its contents stay the same."""
    key = (id(weight), stored.perm, stored.format, stored.block)
    matrix = np.transpose(weight, stored.perm).reshape(rows, -1)
    checksum = zlib.crc32(np.asarray(weight, order="C").view(np.uint8).data)
    known = _DONE.get(key)
    if known is None or known.checksum != checksum:
        packed, scales = quantize(matrix, stored.format, stored.block)
        error = relative_error(matrix, packed, scales, stored.format, stored.block)
        if known is None:
            weakref.finalize(weight, _DONE.pop, key, None)
        known = _DONE[key] = _Codes(packed, scales, error, checksum)
    return known


def _read(e: Emitter, node: Node, pair: tuple[Value, Value], use: _Read, frozen: Frozen) -> Value:
    """The node with its operand decompressed."""
    attrs = {"format": frozen.format.value, "block": frozen.block_of(math.prod(use.shape[1:]))}
    if reads_rows(node):
        rows = [e.op("gather", value, node.inputs[1], axis=0) for value in pair]
        return e.op(DEQUANTIZE, *rows, shape=node.output.type.shape, **attrs)
    if frozen.activations is not None and _multiplies_rows(node, use):
        return e.op(MATMUL, node.inputs[0], *pair)
    inputs, given = list(node.inputs), dict(node.attrs)
    inputs[use.operand] = e.op(DEQUANTIZE, *pair, shape=use.shape, **attrs)
    if convolution_of(node) is None:
        given["trans_b" if use.operand else "trans_a"] = bool(use.operand)
    return e.op(node.op, *inputs, **given)


def _multiplies_rows(node: Node, use: _Read) -> bool:
    """Whether it is a product of rows with the weight's rows, of which each is a whole number of aligned parts."""
    product = node.op == "matmul" and use.operand == 1 and not node.attrs["trans_a"]
    return product and len(use.shape) == node.inputs[0].type.rank == 2 and use.shape[1] % ALIGNED == 0


def _chosen(model: Graph, frozen: Frozen, scheme: Scheme) -> dict[Value, list[_Read]]:
    """The weights to quantise, in the order of the model's parameters, and how they are read."""
    found: dict[Value, list[_Read]] = {}
    candidates = [value for value in model.params if not is_adapter(value.name)]
    if not frozen.params:
        for value in candidates:
            uses = _uses(model, value, scheme)
            if value.type.nbytes > LEAST_BYTES and not isinstance(uses, str) and not any(u.rows for u in uses):
                found[value] = uses
        return found
    for pattern in frozen.params:
        matched = [value for value in candidates if matches(pattern, value.name)]
        if not matched:
            names = [name for value in candidates for name in (value.name, module_of(value.name))]
            raise RecipeError(f"the pattern '{pattern}' of frozen.params matches no weight{nearest(pattern, names)}")
        tried = {value: _uses(model, value, scheme) for value in matched}
        able = {value: uses for value, uses in tried.items() if not isinstance(uses, str)}
        if not able:
            value, reason = next(iter(tried.items()))
            raise RecipeError(f"'{value.name}' cannot be kept in {frozen.weights}: {reason}; narrow frozen.params")
        found.update(able)
    return {value: found[value] for value in model.params if value in found}


def _uses(model: Graph, weight: Value, scheme: Scheme) -> list[_Read] | str:
    """How a weight is read, or why it cannot be quantised."""
    if scheme.of(weight.name) != FROZEN:
        return "the recipe trains it"
    if weight in model.updates:
        return "the model changes it"
    if weight in model.outputs.values():
        return "it is an output of the model"
    if weight.type.rank < 2 or not weight.type.dtype.is_float:
        return "it is no matrix of numbers"
    found: list[_Read] = []
    for node, value, axes in readers(model, weight):
        use = _use(node, value, axes, weight.type.rank)
        if isinstance(use, str):
            return use
        found.append(use)
    if not found:
        return "nothing reads it"
    return found if len({(use.perm, use.shape[0]) for use in found}) == 1 else "it is used along different axes"


def _use(node: Node, value: Value, axes: Axes, rank: int) -> _Read | str:
    if value.type.dtype is not DType.F32:
        return f"{node.op} reads it as {value.type.dtype.value}, and only f32 can be decompressed to"
    operand, order = node.inputs.index(value), list(range(value.type.rank))
    if reads_rows(node) and operand == 0 and value.type.rank == 2:
        pass
    elif convolution_of(node) is Convolution.FORWARD and operand == 1:
        if node.attrs["groups"] != 1:
            return "its convolution is grouped"
    elif multiplies(node, value):
        if contracted(node, value, (0, 1)) == 0:
            order = [1, 0]
    else:
        return f"{node.op} reads it (node '{node.origin}'), which is no linear layer and no convolution"
    seen = [axis for axis in (axes[i] for i in order) if axis is not None]
    perm = (*seen, *(axis for axis in range(rank) if axis not in seen))  # the rest have size 1
    return _Read(node.outputs[0], operand, perm, tuple(value.type.shape[i] for i in order), reads_rows(node))
