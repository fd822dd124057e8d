"""Low-rank adapters: inserted into a model beside its weights, and merged into them afterwards.

y = W x becomes y = W x + alpha / rank * B (A x), in this order, so that B A never exists in training (Hu et al.,
"LoRA: Low-Rank Adaptation of Large Language Models", 2021). Shapes, names and initial contents are PEFT's: A
`[rank, in]` uniform within 1 / sqrt(in), B `[out, rank]` zero; for a convolution A is one to `rank` channels and B a
1x1 one."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import RecipeError, nearest
from ..ir import Array, DType, Graph, Node, TensorType, Value, verify
from ..ops import Convolution, Emitter, Rewriting, convolution_of, reads_rows
from ..recipe import Lora, adapter_names, matches, module_of
from ..recipe.resolution.channels import contracted, multiplies, readers


@dataclass(frozen=True, eq=False)
class Adapter:
    """What is trained beside one weight.

    reads      the nodes that multiply with the weight -> which operand it is
    transposed the weight is stored `[in, out]`
    a, b       types of the two matrices (or kernels), of the precision that the product is computed in
    scale      alpha / rank, by which what they add is multiplied"""

    weight: Value
    reads: Mapping[Value, int]
    transposed: bool
    a: TensorType
    b: TensorType
    scale: float

    @property
    def names(self) -> tuple[str, str]:
        return adapter_names(self.weight.name)

    def merged(self, weight: Array, a: Array, b: Array) -> Array:
        """The weight that alone computes what weight and adapter compute together, in the weight's type."""
        rank = a.shape[0]
        change = b.reshape(-1, rank).astype(np.float64) @ a.reshape(rank, -1).astype(np.float64) * self.scale
        shaped = change.T if self.transposed else change
        merged: Array = (weight.astype(np.float64) + shaped.reshape(weight.shape)).astype(weight.dtype)
        return merged


def adapters_of(model: Graph, lora: Lora) -> tuple[Adapter, ...]:
    """The adapters that a recipe asks for, in the order of the model's parameters. Raises RecipeError for a pattern
    that matches no weight, or none that can have an adapter."""
    found: dict[Value, Adapter] = {}
    for pattern in lora.params:
        matched = [value for value in model.params if matches(pattern, value.name)]
        if not matched:
            names = [name for value in model.params for name in (value.name, module_of(value.name))]
            raise RecipeError(f"the pattern '{pattern}' of lora.params matches no weight{nearest(pattern, names)}")
        tried = {value: _adapter(model, value, lora) for value in matched}
        able = {value: adapter for value, adapter in tried.items() if isinstance(adapter, Adapter)}
        if not able:
            value, reason = next(iter(tried.items()))
            raise RecipeError(f"'{value.name}' cannot have a low-rank adapter: {reason}; narrow lora.params")
        found.update(able)
    names = [value.name for value in found]
    for one in lora.ranks:
        if not any(matches(one.params, name) for name in names):
            hint = nearest(one.params, [*names, *map(module_of, names)])
            raise RecipeError(f"the pattern '{one.params}' of lora.ranks matches no weight that has an adapter{hint}")
    return tuple(found[value] for value in model.params if value in found)


def with_adapters(model: Graph, lora: Lora) -> Graph:
    """The model with adapters inserted, and their initial contents. The outputs stay what they are until training: B is
    zero. Raises RecipeError as `adapters_of` does.

    %y = matmul(%x, %w)   ->   %h = matmul(%x, %A); %d = matmul(%h, %B); %y = add(matmul(%x, %w), %d)
    """
    adapters = adapters_of(model, lora)
    taken = {value.name for value in model.params}
    pairs: dict[Adapter, tuple[Value, Value]] = {}
    for adapter in adapters:
        if taken.intersection(adapter.names):
            raise RecipeError(f"'{adapter.weight.name}' has an adapter already, '{adapter.names[0]}': leave it out")
        name_a, name_b = adapter.names
        pairs[adapter] = Value(name_a, adapter.a), Value(name_b, adapter.b)
    data = {**model.data}
    for a, b in pairs.values():
        data[a.name] = initial(a, lora.seed)
        data[b.name] = np.zeros(b.type.shape, b.type.dtype.numpy)
    adapter_at = {result: adapter for adapter in adapters for result in adapter.reads}
    new = tuple(value for pair in pairs.values() for value in pair)

    def rule(e: Emitter, node: Node) -> Sequence[Value] | None:
        adapter = adapter_at.get(node.outputs[0])
        if adapter is None:
            return None
        branch = _linear_branch if convolution_of(node) is None else _conv_branch
        y = e.op(node.op, *node.inputs, **node.attrs)
        x = node.inputs[1 - adapter.reads[node.outputs[0]]]
        x = e.op("dropout", x, p=lora.dropout) if lora.dropout else x
        return [e.add(y, branch(e, node, x, adapter, *pairs[adapter]))]

    walk = Rewriting(model.with_(params=(*model.params, *new), data=data))
    for node in walk:
        walk.replace(rule(walk.emitter, node))
    return verify(walk.graph(), "adapters")


def initial(a: Value, seed: int) -> Array:
    """Kaiming's uniform distribution with a = sqrt(5): bounded by 1 / sqrt(fan in). Depends on name and seed only."""
    bound = 1.0 / math.sqrt(math.prod(a.type.shape[1:]))
    generator = np.random.default_rng([seed, zlib.crc32(a.name.encode())])
    return generator.uniform(-bound, bound, a.type.shape).astype(a.type.dtype.numpy)


def _linear_branch(e: Emitter, node: Node, x: Value, adapter: Adapter, a: Value, b: Value) -> Value:
    """`x` is what the node multiplies with the weight."""
    if adapter.reads[node.outputs[0]] == 1:
        hidden = e.op("matmul", x, a, trans_a=node.attrs["trans_a"], trans_b=True)
        return e.op("matmul", e.mul(hidden, adapter.scale), b, trans_a=False, trans_b=True)
    hidden = e.op("matmul", a, x, trans_a=False, trans_b=node.attrs["trans_b"])
    return e.op("matmul", b, e.mul(hidden, adapter.scale), trans_a=False, trans_b=False)


def _conv_branch(e: Emitter, node: Node, x: Value, adapter: Adapter, a: Value, b: Value) -> Value:
    kernel = node.inputs[1].type.shape[2:]
    hidden = e.op("conv2d", x, e.reshape(a, (a.type.shape[0], a.type.shape[1], *kernel)), **node.attrs)
    unit = {**node.attrs, "stride": (1, 1), "pad": (0, 0, 0, 0), "dilation": (1, 1)}
    return e.op("conv2d", e.mul(hidden, adapter.scale), e.reshape(b, (*b.type.shape[:2], 1, 1)), **unit)


def _adapter(model: Graph, weight: Value, lora: Lora) -> Adapter | str:
    """The adapter of one parameter, or why it cannot have one."""
    shape = weight.type.shape
    if len(shape) < 2:
        return "it is no matrix"
    reads: dict[Value, int] = {}
    inner: set[int | None] = set()
    dtypes: set[DType] = set()
    for node, value, axes in readers(model, weight):
        reason = _unfit(node, value)
        if reason:
            return reason
        operand = node.inputs.index(value)
        reads[node.output] = operand
        inner.add(contracted(node, value, axes))
        dtypes.add(value.type.dtype)
    if len(inner) != 1 or len(dtypes) != 1:
        return "it is used in different ways" if inner else "nothing reads it"
    (axis,), (dtype,) = inner, dtypes
    inputs, outputs = shape[axis or 0], shape[1 - (axis or 0)]
    matrix, rank = len(shape) == 2, lora.rank_of(weight.name)
    a = TensorType(dtype, (rank, inputs) if matrix else (rank, *shape[1:]))
    b = TensorType(dtype, (outputs, rank) if matrix else (shape[0], rank, *(1 for _ in shape[2:])))
    return Adapter(weight, reads, axis == 0, a, b, lora.alpha / rank)


def _unfit(node: Node, value: Value) -> str | None:
    """Why a use of a weight rules an adapter out."""
    if reads_rows(node):
        return "it is an embedding table (or shared with one)"
    if convolution_of(node) is Convolution.FORWARD and node.inputs[1] is value:
        return "its convolution is grouped" if node.attrs["groups"] != 1 else None
    if multiplies(node, value):
        return None
    return f"{node.op} reads it (node '{node.origin}'), which is no linear layer and no convolution"
