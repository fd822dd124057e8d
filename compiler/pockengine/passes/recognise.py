"""Attention that a model spells out becomes the one operator, so that a backend can compute it whole.

What exporters write around it (scales, masks, repeated heads) becomes its attributes and operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .. import interp
from ..ir import Array, DType, Graph, Node, Value
from ..ops import Emitter, Rewriting, prune
from ..ops.movement import exchanged

HIDDEN = -1e30
"""A score at or below this has no weight: exporters write the least finite number where they mean minus infinity."""


def recognise(graph: Graph) -> Graph:
    """Find attention in matrix products around a softmax; drop masks that hide nothing, and see triangles and repeated
    heads in what is constant.

    %s = matmul(%q, %k) {trans_b: true}; %p = softmax(%s); %y = matmul(%p, %v)   ->   %y = attention(%q, %k, %v)
    """
    return prune(_plainer(_composed(graph)))


@dataclass(frozen=True)
class _Mask:
    """What is done to scores before the softmax: `kind` is "add", "keep" (where true) or "hide" (where true).

    blind  whether a query may see nothing but `fill`, a number: its weights are then the same for all keys, and no
           gradient passes to its scores"""

    kind: str
    value: Value
    fill: float = 0.0
    blind: bool = False


@dataclass(frozen=True)
class _Found:
    """The operands of an attention, and the shapes that queries and keys have in their product. Keys and values may lie
    transposed, as [batch, heads, depth, time]."""

    q: Value
    k: Value
    v: Value
    shapes: tuple[tuple[int, ...], ...]
    keys_turned: bool
    values_turned: bool
    scale: float
    masks: tuple[_Mask, ...]


class _Matcher:
    """Finds a product with weights, whose softmax has scores of another product; nobody else may read any of them."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.made, self.users = graph, graph.producers(), graph.users()
        self.results = set(graph.results())

    def match(self, node: Node) -> _Found | None:
        if node.op != "matmul" or node.attrs["trans_a"] or node.output.type.dtype is not DType.F32:
            return None
        weights, guarded = self._weights(node.inputs[0])
        rank = node.output.type.rank
        if weights is None or rank not in (3, 4) or weights.attrs["axis"] not in (-1, rank - 1):
            return None
        at, scale, masks = weights.inputs[0], 1.0, list[_Mask]()
        while (products := self._only(at, "matmul")) is None:
            step = self._only(at, "mul", "div", "add", "where")
            taken = self._step(step) if step else None
            if taken is None:
                return None
            at, what = taken
            if isinstance(what, float):
                scale *= what
            elif scale != 1.0:
                return None  # masked scores are scaled
            else:
                masks.insert(0, what)
        if products.attrs["trans_a"] or products.output.type.shape != weights.output.type.shape:
            return None
        (q, of_queries), (k, of_keys) = map(self._unscaled, products.inputs)
        turned = not products.attrs["trans_b"], bool(node.attrs["trans_b"])
        shapes = tuple(x.type.shape for x in products.inputs)
        seen = tuple(self._boolean(mask) if guarded else mask for mask in masks)
        if any(mask.blind and seen[0].kind == "add" for mask in seen[1:]):
            return None  # what is added would get a gradient, too
        return _Found(q, k, node.inputs[1], shapes, *turned, scale * of_queries * of_keys, seen)

    def _weights(self, value: Value) -> tuple[Node | None, bool]:
        """The softmax, and whether weights that are no numbers become zeros after it: so PyTorch's exporter writes that
        its attention gives zeros for a query that sees nothing, as ours does."""
        guard = self._only(value, "where")
        if guard is None:
            return self._only(value, "softmax", "masked_softmax"), False
        test = self.made.get(guard.inputs[0])
        zero, weights = guard.inputs[1:]
        if test is not None and test.op == "logical_not":
            test = self.made.get(test.inputs[0])
        else:
            zero, weights = weights, zero
        softmax = self.made.get(weights)
        if test is None or test.op != "equal" or softmax is None or softmax.op not in ("softmax", "masked_softmax"):
            return None, False
        alone = set(self.users[weights]) == {test, guard} and weights not in self.results
        return softmax if alone and set(test.inputs) == {weights} and self._number(zero) == 0.0 else None, True

    def _boolean(self, mask: _Mask) -> _Mask:
        """The boolean mask that PyTorch was given where its exporter adds 0 or the least number."""
        node = self.made.get(mask.value)
        if mask.kind != "add" or node is None or node.op != "where":
            return mask
        condition, first, second = node.inputs
        for zero, other, kind in ((first, second, "keep"), (second, first, "hide")):
            fill = self._number(other)
            if self._number(zero) == 0.0 and fill is not None and fill <= HIDDEN:
                return _Mask(kind, condition, -np.inf)
        return mask

    def _unscaled(self, x: Value) -> tuple[Value, float]:
        """What a number multiplies to make x, maybe in another shape, and the number: exporters scale queries and keys
        before their product."""
        node = self.made.get(x)
        if node is not None and node.op == "reshape":
            source, number = self._unscaled(node.inputs[0])
            return (x, 1.0) if number == 1.0 else (source, number)
        if node is not None and node.op == "mul":
            for source, other in (node.inputs, node.inputs[::-1]):
                factor = self._number(other)
                if factor is not None and source.type == node.output.type:
                    return source, factor
        return x, 1.0

    def _blind(self, kind: str, condition: Value) -> bool:
        """Whether some row of a mask may hide everything: what is not constant may."""
        array = self.graph.consts.get(condition)
        return array is None or not bool((array if kind == "keep" else ~array).any(-1).all())

    def _only(self, value: Value, *ops: str) -> Node | None:
        """The node that makes a value which has one reader."""
        node = self.made.get(value)
        alone = len(self.users[value]) == 1 and value not in self.results
        return node if node is not None and node.op in ops and alone else None

    def _number(self, value: Value) -> float | None:
        array = self.graph.consts.get(value)
        return float(array.flat[0]) if array is not None and array.size == 1 else None

    def _step(self, node: Node) -> tuple[Value, float | _Mask] | None:
        """What a node before the softmax reads as scores, and how it changes them."""
        if node.op == "where":
            condition, first, second = node.inputs
            for scores, other, kind in ((first, second, "keep"), (second, first, "hide")):
                fill = self._number(other)
                if fill is not None and fill <= HIDDEN:
                    return scores, _Mask(kind, condition, fill, fill != -np.inf and self._blind(kind, condition))
            return None
        for scores, other in (node.inputs, node.inputs[::-1]):
            number = self._number(other)
            if node.op == "mul" and number is not None:
                return scores, number
            if node.op == "div":
                return (scores, 1.0 / number) if number else None
            chain = self._only(scores, "matmul", "mul", "div", "add", "where")
            if node.op == "add" and chain is not None and scores.type == node.output.type:
                return scores, _Mask("add", other)
        return None


def _composed(graph: Graph) -> Graph:
    matcher = _Matcher(graph)
    found = {node.outputs[0]: hit for node in graph.nodes if (hit := matcher.match(node))}
    if not found:
        return graph
    made: dict[Value, Value] = {}

    def rule(e: Emitter, node: Node) -> Sequence[Value] | None:
        hit = found.get(node.outputs[0])
        if hit is None:
            return None
        q, k, v = (made.get(value, value) for value in (hit.q, hit.k, hit.v))
        made[node.output] = _emit(e, replace(hit, q=q, k=k, v=v), node.output.type.shape)
        return [made[node.output]]

    walk = Rewriting(graph)
    for node in walk:
        walk.replace(rule(walk.emitter, node))
    return walk.graph()


def _emit(e: Emitter, found: _Found, shape: tuple[int, ...]) -> Value:
    q, k = (e.reshape(x, shape) for x, shape in zip((found.q, found.k), found.shapes, strict=True))
    k, v = (_turned(e, x) if turned else x for x, turned in ((k, found.keys_turned), (found.v, found.values_turned)))
    for mask in found.masks:
        if mask.blind:  # hidden scores have no gradient: those of a query that is zero have none, and are as hidden
            q = e.where(_seeing(e, mask), q, 0.0)
    masks = [_mask(e, mask) for mask in found.masks]
    operands = [_with_heads(e, x) if len(shape) == 3 else x for x in (q, k, v, *masks)]
    y, _ = e.multi("attention", operands, scale=found.scale, causal=False)
    return e.reshape(y, shape)


def _turned(e: Emitter, x: Value) -> Value:
    """The last two axes exchanged; where x was made by exchanging them, maybe with the axes before as one, what it was
    made of."""
    *outer, rows, columns = x.type.shape
    shaped = e.builder.producers.get(x)
    inner = shaped.inputs[0] if shaped is not None and shaped.op == "reshape" else x
    turn = e.builder.producers.get(inner)
    exchanges = turn is not None and turn.op == "transpose" and turn.attrs["perm"] == exchanged(inner.type.rank)
    if turn is not None and exchanges and inner.type.shape[-2:] == (rows, columns):
        return e.reshape(_unshaped(e, turn.inputs[0]), (*outer, columns, rows))
    return e.transpose(x, exchanged(x.type.rank))


def _unshaped(e: Emitter, x: Value) -> Value:
    """What x is a reshape of."""
    while (node := e.builder.producers.get(x)) is not None and node.op == "reshape":
        x = node.inputs[0]
    return x


def _with_heads(e: Emitter, x: Value) -> Value:
    """[batch, time, depth] -> [batch, 1, time, depth]; masks of fewer axes stay."""
    shape = x.type.shape
    return e.reshape(x, (shape[0], 1, *shape[1:])) if len(shape) == 3 else x


def _seeing(e: Emitter, mask: _Mask) -> Value:
    """Which queries see something, [..., queries, 1]."""
    keep = mask.value if mask.kind == "keep" else e.op("logical_not", mask.value)
    number = e.cast(keep, DType.F32)
    return e.less(0.5, e.op("reduce_max", number, axes=(number.type.rank - 1,)))


def _mask(e: Emitter, mask: _Mask) -> Value:
    if mask.kind == "add":
        return mask.value
    if mask.fill == -np.inf:
        return mask.value if mask.kind == "keep" else e.op("logical_not", mask.value)
    zero, fill = (e.const(x, DType.F32) for x in (0.0, mask.fill))
    return e.op("where", mask.value, *((zero, fill) if mask.kind == "keep" else (fill, zero)))


def _plainer(graph: Graph) -> Graph:
    known: dict[Value, Array | None] = {}

    def rule(e: Emitter, node: Node) -> Sequence[Value] | None:
        if node.op != "attention":
            return None
        q, keys, values = node.inputs[:3]
        few = _repeated(e, keys), _repeated(e, values)
        if few[0] and few[1] and few[0].type.shape[1] == few[1].type.shape[1]:
            keys, values = few[0], few[1]
        rows, columns = q.type.shape[2], node.inputs[1].type.shape[2]
        masks, causal = list[Value](), bool(node.attrs["causal"])
        for mask in node.inputs[3:]:
            seen = _seen(_constant(e, mask, known))
            if seen is not None and seen.all():
                continue
            if seen is not None and rows <= columns and _triangle(seen, rows, columns):
                causal = True
                continue
            masks.append(mask)
        operands = (q, keys, values, *masks)
        return None if operands == node.inputs else e.multi("attention", operands, **{**node.attrs, "causal": causal})

    walk = Rewriting(graph)
    for node in walk:
        walk.replace(rule(walk.emitter, node))
    return walk.graph()


def _repeated(e: Emitter, x: Value) -> Value | None:
    """What [batch, heads, time, depth] repeats along heads, each head as often as there are queries to it."""
    outer = e.builder.producers.get(x)
    spread = e.builder.producers.get(outer.inputs[0]) if outer and outer.op == "reshape" else None
    if spread is None or spread.op != "broadcast_to" or spread.output.type.rank != 5:
        return None
    batch, own, _, time, depth = spread.output.type.shape
    (source,) = spread.inputs
    if source.type.shape != (batch, own, 1, time, depth) or (batch, time, depth) != (
        x.type.shape[0],
        *x.type.shape[2:],
    ):
        return None
    return e.reshape(source, (batch, own, time, depth))


def _constant(e: Emitter, value: Value, known: dict[Value, Array | None]) -> Array | None:
    """The contents of what depends on constants only."""
    if value not in known:
        known[value] = e.builder.consts.get(value)
        node = e.builder.producers.get(value)
        if node is not None and node.inputs:
            arrays = [_constant(e, x, known) for x in node.inputs]
            given = [array for array in arrays if array is not None]
            if len(given) == len(arrays):
                known.update(zip(node.outputs, interp.run_node(node, given), strict=True))
    return known[value]


def _seen(mask: Array | None) -> Array | None:
    """Which positions a mask leaves as they are; None where it does more than that, or is not known."""
    if mask is None or mask.dtype == bool:
        return mask
    return mask == 0 if bool(((mask == 0) | (mask <= HIDDEN)).all()) else None


def _triangle(seen: Array, rows: int, columns: int) -> bool:
    if seen.shape[-2:] != (rows, columns):
        return False
    return bool((seen == np.tri(rows, columns, columns - rows, dtype=bool)).all())
