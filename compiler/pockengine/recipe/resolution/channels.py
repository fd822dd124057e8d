"""Which axis of a weight holds the input channels, from how the graph uses it."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import RecipeError
from ...ir import Graph, Node, Value
from ...ops import Kind, Role, axes_of, convolution_of, is_kind, reads_rows, record_of
from ...ops.registry import consumed_axes, roles_of

Axes = tuple[int | None, ...]
"""For each axis of a value, the axis of the parameter it came from; None for an axis of size 1 put in between."""


def channel_axis(graph: Graph, param: Value) -> int:
    """The axis of `param` along which its input channels lie.

    Convolution `[out, in / groups, kh, kw]`: 1, with groups 0; matrix product: the contracted axis; through transposes
    and reshapes that only add or drop axes of size 1. Raises RecipeError for tensors without channels: biases, scales,
    embedding tables."""
    if param.type.rank < 2:
        raise RecipeError(
            f"'{param.name}' has shape {list(param.type.shape)} and no input channels: "
            "leave 'channels' out to train it whole, or narrow the pattern to weights"
        )
    found: set[int] = set()
    for node, value, axes in readers(graph, param):
        axis = contracted(node, value, axes)
        if axis is None:
            raise RecipeError(_refusal(param, node))
        found.add(axis)
    if len(found) != 1:
        raise RecipeError(
            f"'{param.name}' is used along different axes, so its channels are not defined; train it whole"
        )
    return found.pop()


def readers(graph: Graph, param: Value) -> Iterator[tuple[Node, Value, Axes]]:
    """The nodes that compute with a parameter, past those that only move its axes: (node, the operand that is the
    parameter, where each of its axes came from)."""
    users = graph.users()
    pending: list[tuple[Value, Axes]] = [(param, tuple(range(param.type.rank)))]
    while pending:
        value, axes = pending.pop()
        for node in users[value]:
            moved = _moved(node, axes)
            if moved is None:
                yield node, value, axes
            else:
                pending.append((node.output, moved))


def _moved(node: Node, axes: Axes) -> Axes | None:
    """Where the axes are after a node that only moves them; None for any other node."""
    if node.op == "cast":
        return axes
    record = record_of(node)
    if record.kind is not Kind.MOVEMENT or not record.selectable:
        return None
    shape = node.inputs[0].type.shape
    sources = [source[0] if source is not None else None for source in axes_of(node) or ()]
    whole = all(size == 1 or axis in sources for axis, size in enumerate(shape))
    return tuple(None if source is None else axes[source] for source in sources) if whole else None


def multiplies(node: Node, value: Value) -> bool:
    """Whether a node is the product of something with `value`, a matrix: a linear layer, if that is its weight."""
    product = is_kind(node, Kind.CONTRACTION) and convolution_of(node) is None
    return product and value.type.rank == 2 and node.inputs[0] is not node.inputs[1]


def contracted(node: Node, value: Value, axes: Axes) -> int | None:
    """The parameter's axis that `node` sums over when it reads `value`; None when it is not a product with a weight."""
    if not is_kind(node, Kind.CONTRACTION) or node.inputs[0] is node.inputs[1]:
        return None
    operand = node.inputs.index(value)
    if roles_of(node)[operand][1] is Role.IMAGE:
        return None
    grouped = node.attrs.get("groups", 1) != 1
    return axes[0] if grouped else axes[consumed_axes(node, operand)[0]]


def _refusal(param: Value, node: Node) -> str:
    if reads_rows(node):
        return (
            f"'{param.name}' is an embedding table, which has rows and no input channels: "
            "leave 'channels' out to train it whole, or narrow the pattern"
        )
    return (
        f"'{param.name}' is read by {node.op} (node '{node.origin}'), which has no input channels; leave 'channels' out"
    )
