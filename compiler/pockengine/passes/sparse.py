"""Selections and scales move through gradients to where they cost least: it makes sparse steps cheap."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir import Graph, Node, Value
from ..ops import Convolution, Emitter, Rewriting, axes_of, convolution_of, is_kind, prune, record_of, unpacks
from ..ops.convolution import GEOMETRY_KEYS
from ..ops.movement import ints
from .order import hoist

Take = Callable[[Value, int], Value]
"""(value, axis) -> what the selection leaves of it."""


def push_select(graph: Graph) -> Graph:
    """Move a selection of channels through what computes the tensor, down to the saved activation.

    gather(conv2d_dw(%x, %dy), %i) {axis: 1}   ->   conv2d_dw(gather(%x, %i), %dy)
    gather(matmul(%a, %b), %i) {axis: 1}       ->   matmul(%a, gather(%b, %i))

    Of each tensor a selection is taken once: behind residual connections it would be twice as many at every addition.
    It stays behind a contraction whose whole result something else reads: the gradient of a norm's scale, that is made
    of the weight's (`scale_gradient_from_weights`).
    """
    while True:
        pushing = _Pushing(_read_whole(prune(graph)))
        walk = Rewriting(graph)
        for node in walk:
            walk.replace(pushing.rule(walk.emitter, node))
        graph = walk.graph()
        if not pushing.changed:
            return _select_early(graph)


class _Pushing:
    """One walk, in which each selection moves by one node."""

    def __init__(self, whole: set[Value]) -> None:
        self.changed = False
        self._whole = whole
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
        if source is not None and record_of(source).selectable and not repeats and value not in self._whole:
            pushed = _through(e, source, take, axis, left)
        self._selected[value, indices, axis] = node.output if pushed is None else pushed
        if pushed is None:
            return None
        self.changed = True
        return [pushed]


def _read_whole(graph: Graph) -> set[Value]:
    """Results of contractions that something else than a selection reads."""
    contractions = {value for node in graph.nodes if is_kind(node, "contraction") for value in node.outputs}
    return {value for node in graph.nodes if node.op != "gather" for value in node.inputs if value in contractions}


def _through(e: Emitter, node: Node, take: Take, axis: int, left: int) -> Value | None:
    """What `node` makes of the selected parts of its operands, as its record says; None where it has to be whole."""
    sources, shape = axes_of(node), list(node.output.type.shape)
    source = sources[axis] if sources is not None else None
    if source is None:
        return None
    shape[axis] = left
    inputs = [value if own is None else take(value, own) for value, own in zip(node.inputs, source, strict=True)]
    return e.op(node.op, *inputs, **record_of(node).sized(node, shape))


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
        which = convolution_of(node)
        if which not in (Convolution.IMAGE_GRADIENT, Convolution.FILTER_GRADIENT):
            return None
        of_image = which is Convolution.IMAGE_GRADIENT
        split = _channel_scale(e, node.inputs[0 if of_image else 1])
        if split is None:
            return None
        unscaled, scale = split
        other = node.inputs[1 if of_image else 0]
        if of_image and (other.type.nbytes > unscaled.type.nbytes or _unpacked(e, other)):
            return None
        column = e.reshape(scale, (scale.type.size, 1, 1, 1))
        if of_image:
            return [e.op(node.op, unscaled, e.mul(other, column), **node.attrs)]
        return [e.mul(e.op(node.op, other, unscaled, **node.attrs), column)]

    walk = Rewriting(graph)
    for node in walk:
        walk.replace(rule(walk.emitter, node))
    return walk.graph()


def _unpacked(e: Emitter, weights: Value) -> bool:
    made = e.builder.producers.get(weights)
    return made is not None and unpacks(made)


def _channel_scale(e: Emitter, image: Value) -> tuple[Value, Value] | None:
    """(x, s) when `image` (NCHW) is x times one number a channel."""
    node = e.builder.producers.get(image)
    if node is None or node.op != "mul":
        return None
    for unscaled, scale in (node.inputs, node.inputs[::-1]):
        if unscaled.type == image.type and scale.type.shape == (1, image.type.shape[1], 1, 1):
            return unscaled, scale
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
    gradients = {node.inputs: node for node in graph.nodes if convolution_of(node) is Convolution.FILTER_GRADIENT}

    def rule(e: Emitter, node: Node) -> Sequence[Value] | None:
        product = e.builder.producers.get(node.inputs[0]) if node.op == "reduce_sum" else None
        if product is None or product.op != "mul" or not _over_pixels(node):
            return None
        for dz, image in (product.inputs, product.inputs[::-1]):
            conv = e.builder.producers.get(image)
            if conv is None or convolution_of(conv) is not Convolution.FORWARD or (conv.inputs[0], dz) not in gradients:
                continue
            gradient = gradients[conv.inputs[0], dz]
            if any(gradient.attrs[key] != conv.attrs[key] for key in GEOMETRY_KEYS):
                continue
            dw = e.op(gradient.op, conv.inputs[0], dz, **gradient.attrs)
            if dw.type != conv.inputs[1].type:
                continue
            return [e.reshape(e.sum(e.mul(conv.inputs[1], dw), (1, 2, 3)), node.output.type.shape)]
        return None

    walk = Rewriting(graph)
    for node in walk:
        walk.replace(rule(walk.emitter, node))
    return walk.graph()
