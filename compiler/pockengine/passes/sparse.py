"""Algebra that makes the sparse step cheap: selections and scales move through gradients to where they cost least."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir import Graph, Node, Value
from ..ops import Emitter, rewrite
from ..ops.contraction import GEOMETRY_KEYS, Geometry
from ..ops.movement import ints
from ..ops.quantised import DEQUANTIZE
from .order import hoist

Take = Callable[[Value, int], Value]
"""(value, axis) -> what the selection leaves of it."""
Through = Callable[[Emitter, Node, Take, int, int], Value | None]
"""(emitter, what computes the tensor, the selection, its axis, how much it leaves of that) -> the selected tensor."""


def push_select(graph: Graph) -> Graph:
    """Move a selection of channels through what computes the tensor, down to the saved activation.

    gather(conv2d_dw(%x, %dy), %i) {axis: 1}   ->   conv2d_dw(gather(%x, %i), %dy)
    gather(matmul(%a, %b), %i) {axis: 1}       ->   matmul(%a, gather(%b, %i))

    Of each tensor a selection is taken once: behind residual connections it would be twice as many at every addition.
    """
    while True:
        pushing = _Pushing()
        graph = rewrite(graph, pushing.rule)
        if not pushing.changed:
            return _select_early(graph)


class _Pushing:
    """One walk, in which each selection moves by one node."""

    def __init__(self) -> None:
        self.changed = False
        self._selected: dict[tuple[Value, Value, int], Value] = {}

    def rule(self, e: Emitter, node: Node) -> Sequence[Value] | None:
        if node.op != "gather" or node.inputs[1] not in e.builder.consts or node.inputs[1].type.rank != 1:
            return None
        value, indices, axis = *node.inputs, int(node.attrs["axis"])
        if (known := self._selected.get((value, indices, axis))) is not None:
            return [known]

        def take(value: Value, axis: int) -> Value:
            key = value, indices, axis
            if key not in self._selected:
                self._selected[key] = e.op("gather", value, indices, axis=axis)
            return self._selected[key]

        source, left = e.builder.producers.get(value), indices.type.size
        repeats = left > value.type.shape[axis]  # so that it would cost more before
        pushed = None
        if source is not None and source.op in _THROUGH and not repeats:
            pushed = _THROUGH[source.op](e, source, take, axis, left)
        self._selected[value, indices, axis] = node.output if pushed is None else pushed
        if pushed is None:
            return None
        self.changed = True
        return [pushed]


def _through_conv2d_dw(e: Emitter, node: Node, take: Take, axis: int, left: int) -> Value | None:
    g, (x, dy) = Geometry.of(node.attrs), node.inputs
    channel_axis = 3 if g.nhwc else 1
    depthwise = g.groups == node.output.type.shape[0] and node.output.type.shape[1] == 1
    if axis == 1 and g.groups == 1:
        return e.op("conv2d_dw", take(x, channel_axis), dy, **node.attrs)
    if axis == 0 and g.groups == 1:
        return e.op("conv2d_dw", x, take(dy, channel_axis), **node.attrs)
    if axis == 0 and depthwise:
        taken = [take(value, channel_axis) for value in (x, dy)]
        return e.op("conv2d_dw", *taken, **{**node.attrs, "groups": left})
    return None


def _through_matmul(e: Emitter, node: Node, take: Take, axis: int, left: int) -> Value | None:
    rank = node.output.type.rank
    a, b = node.inputs
    if axis == rank - 2:
        return e.op("matmul", take(a, rank - 1 if node.attrs["trans_a"] else rank - 2), b, **node.attrs)
    if axis == rank - 1:
        return e.op("matmul", a, take(b, rank - 2 if node.attrs["trans_b"] else rank - 1), **node.attrs)
    return None


def _through_transpose(e: Emitter, node: Node, take: Take, axis: int, left: int) -> Value | None:
    perm = ints(node.attrs, "perm")
    return e.transpose(take(node.inputs[0], perm[axis]), perm)


def _through_reshape(e: Emitter, node: Node, take: Take, axis: int, left: int) -> Value | None:
    """Where the selected axis and all after it are the same on both sides."""
    before, after = node.inputs[0].type.shape, node.output.type.shape
    tail = len(after) - axis
    if len(before) < tail or before[-tail:] != after[-tail:]:
        return None
    shape = (*after[:axis], left, *after[axis + 1 :])
    return e.reshape(take(node.inputs[0], len(before) - tail), shape)


def _through_elementwise(e: Emitter, node: Node, take: Take, axis: int, left: int) -> Value | None:
    """Only the operands that extend along the axis are selected from."""
    rank, inputs = node.output.type.rank, []
    for value in node.inputs:
        own = axis - (rank - value.type.rank)
        spread = own < 0 or value.type.shape[own] == 1
        inputs.append(value if spread else take(value, own))
    return e.op(node.op, *inputs, **node.attrs)


def _through_sum(e: Emitter, node: Node, take: Take, axis: int, left: int) -> Value | None:
    if axis in ints(node.attrs, "axes"):
        return None
    return e.op("reduce_sum", take(node.inputs[0], axis), **node.attrs)


_THROUGH: dict[str, Through] = {
    "conv2d_dw": _through_conv2d_dw,
    "matmul": _through_matmul,
    "transpose": _through_transpose,
    "reshape": _through_reshape,
    "mul": _through_elementwise,
    "add": _through_elementwise,
    "neg": _through_elementwise,
    "reduce_sum": _through_sum,
}


def _select_early(graph: Graph) -> Graph:
    """A selection from a forward value belongs to the forward part, right after what it selects from, so that the rest
    of that value need not be kept."""
    forward = {value for node in graph.nodes if node.phase == "forward" for value in node.outputs} | set(graph.inputs)

    def early(node: Node) -> bool:
        return node.op == "gather" and node.phase == "backward" and node.inputs[0] in forward

    return hoist(graph, early)


def push_scale(graph: Graph) -> Graph:
    """Move a per-channel scale of a gradient off the image and onto the weights, where they are smaller.

    conv2d_dx(mul(%dz, %s), %w)   ->   conv2d_dx(%dz, mul(%w, %s))
    conv2d_dw(%x, mul(%dz, %s))   ->   mul(conv2d_dw(%x, %dz), %s)
    """

    def rule(e: Emitter, node: Node) -> Sequence[Value] | None:
        if node.op not in ("conv2d_dx", "conv2d_dw"):
            return None
        image = node.inputs[0] if node.op == "conv2d_dx" else node.inputs[1]
        split = _channel_scale(e, image)
        if split is None:
            return None
        plain, scale = split
        weights = node.inputs[1]
        if node.op == "conv2d_dx" and (weights.type.nbytes > plain.type.nbytes or _compressed(e, weights)):
            return None
        column = e.reshape(scale, (scale.type.size, 1, 1, 1))
        if node.op == "conv2d_dx":
            return [e.op("conv2d_dx", plain, e.mul(node.inputs[1], column), **node.attrs)]
        return [e.mul(e.op("conv2d_dw", node.inputs[0], plain, **node.attrs), column)]

    return rewrite(graph, rule)


def _compressed(e: Emitter, weights: Value) -> bool:
    made = e.builder.producers.get(weights)
    return made is not None and made.op == DEQUANTIZE


def _channel_scale(e: Emitter, image: Value) -> tuple[Value, Value] | None:
    """(x, s) when `image` (NCHW) is x times one number a channel."""
    node = e.builder.producers.get(image)
    if node is None or node.op != "mul":
        return None
    for plain, scale in (node.inputs, node.inputs[::-1]):
        if plain.type == image.type and scale.type.shape == (1, image.type.shape[1], 1, 1):
            return plain, scale
    return None


def _over_pixels(node: Node) -> bool:
    """Whether a sum leaves of an NCHW image one number a channel; axes of size 1 need not be among the summed."""
    axes, shape = ints(node.attrs, "axes"), node.inputs[0].type.shape
    return len(shape) == 4 and 1 not in axes and all(axis in axes or shape[axis] == 1 for axis in (0, 2, 3))


def scale_gradient_from_weights(graph: Graph) -> Graph:
    """The gradient of a per-channel scale after a convolution follows from the weight gradient, so that the
    convolution's output need not be kept:  sum_pixels dz * conv(x, w) = sum_taps w * conv2d_dw(x, dz).

        reduce_sum(mul(%dz, conv2d(%x, %w))) {axes: [0, 2, 3]}   ->   reduce_sum(mul(%w, conv2d_dw(%x, %dz))) {axes:
        [1, 2, 3]}

    Applied where that weight gradient is computed anyway."""
    gradients = {node.inputs: node for node in graph.nodes if node.op == "conv2d_dw"}

    def rule(e: Emitter, node: Node) -> Sequence[Value] | None:
        product = e.builder.producers.get(node.inputs[0]) if node.op == "reduce_sum" else None
        if product is None or product.op != "mul" or not _over_pixels(node):
            return None
        for dz, image in (product.inputs, product.inputs[::-1]):
            conv = e.builder.producers.get(image)
            if conv is None or conv.op != "conv2d" or (conv.inputs[0], dz) not in gradients:
                continue
            attrs = gradients[conv.inputs[0], dz].attrs
            if any(attrs[key] != conv.attrs[key] for key in GEOMETRY_KEYS):
                continue
            dw = e.op("conv2d_dw", conv.inputs[0], dz, **attrs)
            if dw.type != conv.inputs[1].type:
                continue
            return [e.reshape(e.sum(e.mul(conv.inputs[1], dw), (1, 2, 3)), node.output.type.shape)]
        return None

    return rewrite(graph, rule)
