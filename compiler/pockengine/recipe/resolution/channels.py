"""Which axis of a weight holds the input channels, from how the graph uses it."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import RecipeError
from ...ir import Graph, Node, Value

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
    if node.op == "transpose":
        perm = node.attrs["perm"]
        assert isinstance(perm, tuple)
        return tuple(axes[int(p)] for p in perm)
    if node.op == "cast":
        return axes
    if node.op == "reshape":
        before, after = node.inputs[0].type.shape, node.output.type.shape
        kept = [axis for axis, size in zip(axes, before, strict=True) if size != 1]
        if [size for size in before if size != 1] == [size for size in after if size != 1]:
            remaining = iter(kept)
            return tuple(None if size == 1 else next(remaining) for size in after)
    return None


def contracted(node: Node, value: Value, axes: Axes) -> int | None:
    """The parameter's axis that `node` sums over when it reads `value`; None when it is not a product with a weight."""
    if node.op == "conv2d" and node.inputs[1] is value:
        return axes[0] if node.attrs["groups"] != 1 else axes[1]
    if node.op == "conv2d_dx" and node.inputs[1] is value:
        return axes[0]
    if node.op == "matmul" and node.inputs[0] is not node.inputs[1]:
        first = node.inputs[0] is value
        transposed = node.attrs["trans_a" if first else "trans_b"]
        return axes[-2] if first == bool(transposed) else axes[-1]
    return None


def _refusal(param: Value, node: Node) -> str:
    if node.op == "gather":
        return (
            f"'{param.name}' is an embedding table, which has rows and no input channels: "
            "leave 'channels' out to train it whole, or narrow the pattern"
        )
    return (
        f"'{param.name}' is read by {node.op} (node '{node.origin}'), which has no input channels; leave 'channels' out"
    )
