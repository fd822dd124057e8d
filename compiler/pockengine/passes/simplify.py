"""Of several ways to write the same thing, one remains, so that later passes need to know only that."""

from __future__ import annotations

from collections.abc import Callable

from ..ir import Graph, Node, Value
from ..ops import Emitter, Rewriting, is_kind, is_view
from ..ops.elementwise import broadcast_shape
from ..ops.movement import exchanged, ints

Simplification = Callable[[Emitter, Node], Value | None]


def simplify(graph: Graph) -> Graph:
    """Apply SIMPLIFICATIONS to each node until nothing changes.

    %b = transpose(%w) {perm: [1, 0]}; %y = matmul(%x, %b)   ->   %y = matmul(%x, %w) {trans_b: true}
    """
    walk = Rewriting(graph, exhaustive=True)
    for node in walk:
        for simplification in SIMPLIFICATIONS.get(node.op, ()):
            value = simplification(walk.emitter, node)
            if value is not None:
                walk.replace([value])
                break
    return walk.graph()


def _made_by(e: Emitter, value: Value, op: str) -> Node | None:
    """The node that makes `value`, if it is of this op."""
    node = e.builder.producers.get(value)
    return node if node is not None and node.op == op else None


def _scalar(e: Emitter, value: Value) -> float | None:
    """The number a constant consists of, or None."""
    array = e.builder.consts.get(value)
    if array is None or array.dtype.kind not in "fiu":
        return None
    if array.size == 1:  # nearly all of them
        return float(array.item())
    return float(array.flat[0]) if array.size and (array == array.flat[0]).all() else None


def _same_type(e: Emitter, node: Node) -> Value | None:
    """reshape, transpose, broadcast_to, slice, pad that change nothing, but for a reshape that is `kept`."""
    if node.attrs.get("kept"):
        return None
    identity = node.op != "transpose" or ints(node.attrs, "perm") == tuple(range(node.output.type.rank))
    return node.inputs[0] if identity and node.inputs[0].type == node.output.type else None


def _merge_reshapes(e: Emitter, node: Node) -> Value | None:
    inner = _made_by(e, node.inputs[0], "reshape")
    return e.op("reshape", inner.inputs[0], **node.attrs) if inner else None


def _merge_transposes(e: Emitter, node: Node) -> Value | None:
    inner = _made_by(e, node.inputs[0], "transpose")
    if not inner:
        return None
    first, second = ints(inner.attrs, "perm"), ints(node.attrs, "perm")
    return e.transpose(inner.inputs[0], [first[p] for p in second])


def _transpose_as_reshape(e: Emitter, node: Node) -> Value | None:
    """Moving only axes of size 1 moves no data."""
    shape = node.inputs[0].type.shape
    moved = [p for p in ints(node.attrs, "perm") if shape[p] != 1]
    return e.reshape(node.inputs[0], node.output.type.shape) if moved == sorted(moved) else None


def _transpose_of_matmul(e: Emitter, node: Node) -> Value | None:
    """(A B)^T = B^T A^T, so that an update can be fused into a weight gradient that has one reader."""
    inner, rank = _made_by(e, node.inputs[0], "matmul"), node.output.type.rank
    if inner is None or inner.phase == "forward" or ints(node.attrs, "perm") != exchanged(rank):
        return None
    a, b = inner.inputs
    return e.op("matmul", b, a, trans_a=not inner.attrs["trans_b"], trans_b=not inner.attrs["trans_a"])


def _matmul_of_transpose(e: Emitter, node: Node) -> Value | None:
    for side, flag in ((0, "trans_a"), (1, "trans_b")):
        inner = _made_by(e, node.inputs[side], "transpose")
        rank = node.inputs[side].type.rank
        if inner and ints(inner.attrs, "perm") == exchanged(rank):
            inputs = list(node.inputs)
            inputs[side] = inner.inputs[0]
            return e.op("matmul", *inputs, **{**node.attrs, flag: not node.attrs[flag]})
    return None


def _conv_of_pad(e: Emitter, node: Node) -> Value | None:
    """A convolution pads with zeros by itself."""
    inner = _made_by(e, node.inputs[0], "pad")
    if inner is None or node.attrs["layout"] != "NCHW" or inner.attrs["value"] != 0:
        return None
    low, high = ints(inner.attrs, "low"), ints(inner.attrs, "high")
    if any((*low[:2], *high[:2], *ints(inner.attrs, "interior"))):
        return None
    pad = tuple(own + more for own, more in zip(ints(node.attrs, "pad"), (*low[2:], *high[2:]), strict=True))
    return e.op("conv2d", inner.inputs[0], node.inputs[1], **{**node.attrs, "pad": pad})


def _neutral(e: Emitter, node: Node) -> Value | None:
    """x + 0, x - 0, x * 1, x / 1."""
    neutral = 0.0 if node.op in ("add", "sub") else 1.0
    sides = ((0, 1), (1, 0)) if node.op in ("add", "mul") else ((0, 1),)
    for keep, other in sides:
        if _scalar(e, node.inputs[other]) == neutral and node.inputs[keep].type == node.output.type:
            return node.inputs[keep]
    return None


def _merge_scales(e: Emitter, node: Node) -> Value | None:
    """(x * a) * b -> x * (a b) for scalar constants."""
    for left, right in ((0, 1), (1, 0)):
        outer, inner = _scalar(e, node.inputs[right]), _made_by(e, node.inputs[left], "mul")
        if outer is None or node.inputs[right].type.rank or inner is None:
            continue
        for keep, other in ((0, 1), (1, 0)):
            factor = _scalar(e, inner.inputs[other])
            if factor is not None and not inner.inputs[other].type.rank:
                return e.mul(inner.inputs[keep], factor * outer)
    return None


def _past_shapes(*rules: Simplification) -> Simplification:
    """The first of the rules that applies, which all need a broadcast or a reshape before the node."""

    def rule(e: Emitter, node: Node) -> Value | None:
        for operand in node.inputs:
            made = e.builder.producers.get(operand)
            if made is not None and made.op in ("broadcast_to", "reshape"):
                return next((value for rule in rules if (value := rule(e, node)) is not None), None)
        return None

    return rule


def _drop_broadcast(e: Emitter, node: Node) -> Value | None:
    """Elementwise ops broadcast by themselves: op(broadcast_to(a), b) -> op(a, b) where the result's shape stays."""
    for index, value in enumerate(node.inputs):
        inner = _made_by(e, value, "broadcast_to")
        if inner is None:
            continue
        inputs = [*node.inputs[:index], inner.inputs[0], *node.inputs[index + 1 :]]
        if broadcast_shape(*(v.type.shape for v in inputs)) == node.output.type.shape:
            return e.op(node.op, *inputs, **node.attrs)
    return None


def _sink_broadcast(e: Emitter, node: Node) -> Value | None:
    """op(broadcast_to(a), scalar) -> broadcast_to(op(a, scalar)): compute before spreading."""
    sources = [_made_by(e, value, "broadcast_to") for value in node.inputs]
    if not any(sources) or any(s is None and v.type.rank for s, v in zip(sources, node.inputs, strict=True)):
        return None
    inputs = [s.inputs[0] if s else v for s, v in zip(sources, node.inputs, strict=True)]
    narrow = e.op(node.op, *inputs, **node.attrs)
    return e.broadcast_to(narrow, node.output.type.shape) if narrow.type.size < node.output.type.size else None


def _sink_reshape(e: Emitter, node: Node) -> Value | None:
    """op(reshape(a), b) -> reshape(op(a, b)) where b lies along the axes the reshape leaves alone, or has a number for
    each row of them: elementwise ops then stand next to the contraction that made `a` and can be fused into it, and a
    norm's reductions next to each other. Not where the reshape is `kept`: then they are meant to stand next to what
    follows."""
    shape = node.output.type.shape
    for value in node.inputs:
        inner = _made_by(e, value, "reshape")
        if inner is None or inner.attrs.get("kept") or value.type.shape != shape or _is_source(e, inner.inputs[0]):
            continue
        before = inner.inputs[0].type.shape
        tail = _common_tail(before, shape)
        leading = shape[: len(shape) - tail]
        whole = [v.type.rank == len(shape) and v.type.shape[: len(leading)] == leading for v in node.inputs]
        fits = all(full or v.type.rank <= tail for v, full in zip(node.inputs, whole, strict=True))
        others = [v for v, full in zip(node.inputs, whole, strict=True) if full and v is not value]
        flatter = len(before) < len(shape) and tail > 0
        if fits and (flatter or all(_is_source(e, v) for v in others)):
            flat = before[: len(before) - tail]
            inputs = [
                e.reshape(v, (*flat, *v.type.shape[len(leading) :])) if full else v
                for v, full in zip(node.inputs, whole, strict=True)
            ]
            return e.reshape(e.op(node.op, *inputs, **node.attrs), shape)
    return None


def _reduce_of_reshape(e: Emitter, node: Node) -> Value | None:
    """Reducing trailing axes commutes with reshaping the leading ones."""
    inner, axes = _made_by(e, node.inputs[0], "reshape"), ints(node.attrs, "axes")
    if inner is None:
        return None
    before, shape = inner.inputs[0].type.shape, node.inputs[0].type.shape
    tail = _common_tail(before, shape)
    if not axes or min(axes) < len(shape) - tail:
        return None
    moved = tuple(axis - len(shape) + len(before) for axis in axes)
    return e.reshape(e.op(node.op, inner.inputs[0], axes=moved), node.output.type.shape)


def _reshape_of_sources(e: Emitter, node: Node) -> Value | None:
    """reshape(op(parameter)) -> op(reshape(parameter)): the reshape is free there, and the op can be fused."""
    inner = e.builder.producers.get(node.inputs[0])
    if inner is None or not is_kind(inner, "elementwise"):
        return None
    if not _is_source(e, inner.output) or any(v.type.shape not in ((), inner.output.type.shape) for v in inner.inputs):
        return None
    inputs = [e.reshape(v, node.output.type.shape) if v.type.rank else v for v in inner.inputs]
    return e.op(inner.op, *inputs, **inner.attrs)


def _is_source(e: Emitter, value: Value, depth: int = 4) -> bool:
    """Whether the value is a parameter, state, constant or input, a view of one, or a short elementwise chain of
    them."""
    node = e.builder.producers.get(value)
    if node is None:
        return True
    follows = is_view(node) or is_kind(node, "elementwise")
    return depth > 0 and follows and all(_is_source(e, v, depth - 1) for v in node.inputs)


def _common_tail(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """How many trailing axes two shapes share."""
    count = 0
    while count < min(len(a), len(b)) and a[-1 - count] == b[-1 - count]:
        count += 1
    return count


def _merge_broadcasts(e: Emitter, node: Node) -> Value | None:
    inner = _made_by(e, node.inputs[0], "broadcast_to")
    return e.broadcast_to(inner.inputs[0], node.output.type.shape) if inner else None


def _sum_of_broadcast(e: Emitter, node: Node) -> Value | None:
    """Summing copies is multiplying: over axes that were spread from size 1."""
    inner, axes = _made_by(e, node.inputs[0], "broadcast_to"), ints(node.attrs, "axes")
    if not inner:
        return None
    source, full = inner.inputs[0], node.inputs[0].type
    padded = (1,) * (full.rank - source.type.rank) + source.type.shape
    if any(padded[axis] != 1 for axis in axes):
        return None
    count = full.size // node.output.type.size
    return e.broadcast_to(e.mul(e.reshape(source, padded), float(count)), node.output.type.shape)


def _reduce_nothing(e: Emitter, node: Node) -> Value | None:
    return node.inputs[0] if node.inputs[0].type == node.output.type else None


def _merge_sums(e: Emitter, node: Node) -> Value | None:
    inner = _made_by(e, node.inputs[0], "reduce_sum")
    return e.sum(inner.inputs[0], (*ints(inner.attrs, "axes"), *ints(node.attrs, "axes"))) if inner else None


def _double_negation(e: Emitter, node: Node) -> Value | None:
    inner = _made_by(e, node.inputs[0], "neg")
    return inner.inputs[0] if inner else None


def _add_of_negation(e: Emitter, node: Node) -> Value | None:
    inner = _made_by(e, node.inputs[1], "neg")
    return e.sub(node.inputs[0], inner.inputs[0]) if inner else None


_UNARY = (
    "neg",
    "abs",
    "exp",
    "log",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sin",
    "cos",
    "tanh",
    "erf",
    "sigmoid",
    "clip",
    "cast",
)
_BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "pow", "less", "less_equal", "equal", "where")

SIMPLIFICATIONS: dict[str, tuple[Simplification, ...]] = {
    "reshape": (_same_type, _merge_reshapes, _reshape_of_sources),
    "transpose": (_same_type, _merge_transposes, _transpose_as_reshape, _transpose_of_matmul),
    "broadcast_to": (_same_type, _merge_broadcasts),
    "slice": (_same_type,),
    "pad": (_same_type,),
    "concat": (_same_type,),
    "matmul": (_matmul_of_transpose,),
    "conv2d": (_conv_of_pad,),
    "reduce_sum": (_reduce_nothing, _sum_of_broadcast, _merge_sums, _reduce_of_reshape),
    "reduce_prod": (_reduce_nothing, _reduce_of_reshape),
    "reduce_max": (_reduce_nothing, _reduce_of_reshape),
    "reduce_min": (_reduce_nothing, _reduce_of_reshape),
    **dict.fromkeys(_UNARY, (_past_shapes(_sink_broadcast, _sink_reshape),)),
    **dict.fromkeys(_BINARY, (_past_shapes(_drop_broadcast, _sink_broadcast, _sink_reshape),)),
}
for _op in ("add", "sub", "mul", "div"):
    SIMPLIFICATIONS[_op] = (_neutral, *SIMPLIFICATIONS[_op])
SIMPLIFICATIONS["mul"] = (*SIMPLIFICATIONS["mul"], _merge_scales)
SIMPLIFICATIONS["neg"] = (_double_negation, *SIMPLIFICATIONS["neg"])
SIMPLIFICATIONS["add"] = (*SIMPLIFICATIONS["add"], _add_of_negation)
