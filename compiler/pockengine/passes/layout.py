"""Images become channels-last, the layout the kernels compute in; transposes appear only where a value leaves that
world."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..ir import Attr, Builder, Graph, Node, Value
from ..ops import Emitter, is_kind
from ..ops.movement import ints

NHWC = (0, 2, 3, 1)
"""perm such that stored = transpose(original, perm)."""

IMAGE_OPS = ("conv2d", "conv2d_dx", "conv2d_dw", "max_pool", "max_pool_dx", "avg_pool", "avg_pool_dx")


def channels_last(graph: Graph) -> Graph:
    """One sweep: image operators take and give channels-last values, other operators follow where they can.

    %y = conv2d(%x, %w) {NCHW}; %z = add(%y, %b)
      -> %xt = transpose(%x); %yt = conv2d(%xt, %w) {NHWC}; %zt = add(%yt, %bt)
    """
    return _Sweep(graph).run() if any(node.op in IMAGE_OPS for node in graph.nodes) else graph


class _Sweep:
    """`stored` maps an old value to (new value, permuted?); both forms are cached so that each is made once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.builder = Builder(graph.name)
        self.builder.adopt_sources(graph)
        self.builder.reserve(value.name for value in graph.values())
        self.e = Emitter(self.builder)
        self.plain: dict[Value, Value] = {value: value for value in graph.sources()}
        self.last: dict[Value, Value] = {}

    def run(self) -> Graph:
        for node in self.graph.nodes:
            self.builder.phase, self.builder.origin = node.phase, node.origin
            self._visit(node)
        self.builder.outputs = {name: self._plain(value) for name, value in self.graph.outputs.items()}
        self.builder.updates = {target: self._plain(value) for target, value in self.graph.updates.items()}
        return self.builder.finish()

    def _plain(self, value: Value) -> Value:
        """The value in its original layout."""
        if value not in self.plain:
            self.plain[value] = self.e.transpose(self.last[value], [int(i) for i in np.argsort(NHWC)])
        return self.plain[value]

    def _last(self, value: Value) -> Value:
        """The value channels-last."""
        if value not in self.last:
            plain = self.plain[value]
            shape = tuple(plain.type.shape[p] for p in NHWC)
            moved = [p for p in NHWC if plain.type.shape[p] != 1]
            trivial = moved == sorted(moved)
            self.last[value] = self.e.reshape(plain, shape) if trivial else self.e.transpose(plain, NHWC)
        return self.last[value]

    def _visit(self, node: Node) -> None:
        rule = _FOLLOW.get(node.op) or (_elementwise if is_kind(node, "elementwise") else None)
        if node.op in IMAGE_OPS:
            self._image(node)
        elif rule is None or not any(v in self.last and v.type.rank == 4 for v in node.inputs) or not rule(self, node):
            self._keep(node)

    def _keep(self, node: Node) -> None:
        inputs = tuple(self._plain(value) for value in node.inputs)
        self.builder.keep(Node(node.op, inputs, node.outputs, node.attrs, node.body, node.phase, node.origin))
        self.plain.update({value: value for value in node.outputs})

    def _image(self, node: Node) -> None:
        weights = {"conv2d": (1,), "conv2d_dx": (1,)}.get(node.op, ())
        inputs = [self._plain(v) if i in weights else self._last(v) for i, v in enumerate(node.inputs)]
        result = self.e.op(node.op, *inputs, **{**node.attrs, "layout": "NHWC"})
        (self.plain if node.op == "conv2d_dw" else self.last)[node.output] = result

    def emit(self, node: Node, inputs: Sequence[Value], **attrs: object) -> bool:
        """Append the channels-last twin of `node`."""
        self.last[node.output] = self.e.op(node.op, *inputs, **{**node.attrs, **attrs})
        return True


def _axis(axis: int) -> int:
    return NHWC.index(axis)


def _elementwise(sweep: _Sweep, node: Node) -> bool:
    """Operands of lower rank are aligned as [1, C, 1, 1] and so on, then moved."""
    if node.output.type.rank != 4:
        return False
    inputs = []
    for value in node.inputs:
        if value.type.rank == 4:
            inputs.append(sweep._last(value))
        elif value.type.size == 1:
            inputs.append(sweep.e.reshape(sweep._plain(value), ()))
        else:
            padded = (1,) * (4 - value.type.rank) + value.type.shape
            wide = sweep.e.reshape(sweep._plain(value), padded)
            inputs.append(sweep.e.transpose(wide, NHWC))
    return sweep.emit(node, inputs)


def _reduction(sweep: _Sweep, node: Node) -> bool:
    axes = tuple(sorted(_axis(axis) for axis in ints(node.attrs, "axes")))
    return sweep.emit(node, [sweep._last(node.inputs[0])], axes=axes)


def _permuted(key: str, values: Sequence[int]) -> dict[str, Attr]:
    return {key: tuple(values[p] for p in NHWC)}


def _per_axis(*keys: str) -> Callable[[_Sweep, Node], bool]:
    """Ops whose attributes have one entry an axis."""

    def rule(sweep: _Sweep, node: Node) -> bool:
        if node.inputs[0].type.rank != 4 or node.output.type.rank != 4:
            return False
        attrs: dict[str, Attr] = {}
        for key in keys:
            attrs.update(_permuted(key, ints(node.attrs, key)))
        return sweep.emit(node, [sweep._last(node.inputs[0])], **attrs)

    return rule


def _concat(sweep: _Sweep, node: Node) -> bool:
    return sweep.emit(node, [sweep._last(value) for value in node.inputs], axis=_axis(int(node.attrs["axis"])))


def _along_axis(sweep: _Sweep, node: Node) -> bool:
    return sweep.emit(node, [sweep._last(node.inputs[0])], axis=_axis(int(node.attrs["axis"])))


def _split(sweep: _Sweep, node: Node) -> bool:
    axis = _axis(int(node.attrs["axis"]))
    parts = sweep.e.multi("split", [sweep._last(node.inputs[0])], axis=axis, sizes=ints(node.attrs, "sizes"))
    sweep.last.update(zip(node.outputs, parts, strict=True))
    return True


def _select(sweep: _Sweep, node: Node) -> bool:
    """Gather and scatter with a list of indices keep the rank."""
    if node.inputs[-1].type.rank != 1 or node.inputs[0] not in sweep.last:
        return False
    values = [sweep._last(node.inputs[0]), *(sweep._plain(value) for value in node.inputs[1:])]
    return sweep.emit(node, values, axis=_axis(int(node.attrs["axis"])))


def _transpose(sweep: _Sweep, node: Node) -> bool:
    """The model's own transpose of a channels-last value: compose the two."""
    perm = ints(node.attrs, "perm")
    if node.inputs[0] in sweep.plain:
        return False
    stored = [NHWC.index(p) for p in perm]
    sweep.plain[node.output] = sweep.e.transpose(sweep.last[node.inputs[0]], stored)
    return True


def _reshape(sweep: _Sweep, node: Node) -> bool:
    """[N, C, 1, 1] -> [N, C] moves no data in either layout."""
    height, width = node.inputs[0].type.shape[2:]
    if height * width != 1 or node.inputs[0] in sweep.plain:
        return False
    sweep.plain[node.output] = sweep.e.reshape(sweep.last[node.inputs[0]], node.output.type.shape)
    return True


_FOLLOW: dict[str, Callable[[_Sweep, Node], bool]] = {
    **dict.fromkeys(("reduce_sum", "reduce_max", "reduce_min", "reduce_prod"), _reduction),
    "slice": _per_axis("starts", "stops", "steps"),
    "pad": _per_axis("low", "high", "interior"),
    "broadcast_to": _per_axis("shape"),
    "concat": _concat,
    "split": _split,
    "gather": _select,
    "scatter_add": _select,
    **dict.fromkeys(("resample", "cumsum", "cumprod"), _along_axis),
    "transpose": _transpose,
    "reshape": _reshape,
}
