"""When each value of a program needs bytes of the arena.

The graph is numbers here, so that many orders can be tried quickly. The planner's input comes from here. So do the
trials of those who search for a better order, or for what to compute twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..ir import Graph, Node, Value
from ..ops import is_view
from .demand import alive
from .program import Lowered
from .space import aligned

Lower = Callable[[Node], Lowered]


@dataclass(frozen=True)
class Operation:
    """One node as numbers: values are indices into `Work.values`.

    reads      values of the arena, as often as the node reads them
    writes     values of the arena
    over       (read, written): the new value may be written over the old one, if that dies here
    workspace  aligned bytes while the node runs"""

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    over: tuple[tuple[int, int], ...]
    workspace: int


@dataclass(frozen=True)
class Work:
    """A graph as numbers: its nodes but the views, in order, and the values that need bytes of the arena.

    sizes  aligned bytes of each value
    kept   the values that live to the end: what the program returns"""

    nodes: tuple[Node, ...]
    operations: tuple[Operation, ...]
    values: tuple[Value, ...]
    sizes: tuple[int, ...]
    kept: tuple[int, ...]


@dataclass(frozen=True)
class Lives:
    """value -> the value in whose bytes it lies; and the first and last step of those that have bytes of their own."""

    root: dict[int, int]
    first: dict[int, int]
    last: dict[int, int]


def base_of(graph: Graph) -> dict[Value, Value]:
    """Value -> the value whose bytes it views (itself, unless it is a view)."""
    base = {value: value for value in graph.sources()}
    for node in graph.nodes:
        for value in node.outputs:
            base[value] = base[node.inputs[0]] if is_view(node) else value
    return base


def work_of(graph: Graph, lower: Lower, alignment: int) -> Work:
    """The graph as numbers, sizes rounded up to the alignment. New contents of a parameter or state lie over the old
    ones, outside of the arena."""
    base = base_of(graph)
    overwriting = {base[new] for new in graph.updates.values()}
    nodes = tuple(node for node in graph.nodes if not is_view(node))
    values = tuple(value for node in nodes for value in node.outputs if value not in overwriting)
    index = {value: number for number, value in enumerate(values)}
    sizes = tuple(aligned(value.type.nbytes, alignment) for value in values)
    operations = tuple(operation_of(node, lower(node), alignment, base, index) for node in nodes)
    kept = tuple(index[base[value]] for value in graph.outputs.values() if base[value] in index)
    return Work(nodes, operations, values, sizes, kept)


def operation_of(
    node: Node, lowered: Lowered, alignment: int, base: Mapping[Value, Value], index: Mapping[Value, int]
) -> Operation:
    """One node as numbers; `index` has the values that lie in the arena."""
    reads = tuple(index[base[value]] for value in node.inputs if base[value] in index)
    writes = tuple(index[value] for value in node.outputs if value in index)
    over = tuple(
        (index[base[old]], index[new])
        for old, new in ((node.inputs[i], node.outputs[o]) for i, o in lowered.inplace)
        if base[old] in index and new in index
    )
    return Operation(reads, writes, over, aligned(lowered.workspace_bytes, alignment))


def lives_of(operations: Sequence[Operation], sizes: Sequence[int], kept: Sequence[int]) -> Lives:
    """The lifetimes when the operations run in this order."""
    use: dict[int, int] = {}
    for step, operation in enumerate(operations):
        for value in operation.reads:
            use[value] = step
    use |= dict.fromkeys(kept, len(operations))  # beyond the last one, which must not write over what it reads
    root: dict[int, int] = {}
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for step, operation in enumerate(operations):
        for value in operation.writes:
            stop = max(step, use.get(value, step))
            under = _dying(operation, value, step, sizes, root, last) if operation.over else None
            root[value] = value if under is None else under
            if under is None:
                first[value] = step
            last[root[value]] = stop
    return Lives(root, first, {value: min(stop, len(operations) - 1) for value, stop in last.items()})


def _dying(
    operation: Operation, value: int, step: int, sizes: Sequence[int], root: dict[int, int], last: dict[int, int]
) -> int | None:
    """The bytes of an operand that dies here, which nothing else of the operation reads or has taken."""
    for old, new in operation.over:
        if new == value and last[root[old]] == step and sizes[root[old]] == sizes[value]:
            under = root[old]
            readers = sum(root[read] == under for read in operation.reads)
            if readers == 1 and not any(root.get(other) == under for other in operation.writes):
                return under
    return None


def live_bytes(operations: Sequence[Operation], sizes: Sequence[int], kept: Sequence[int]) -> list[int]:
    """Bytes of the arena that are alive at each step."""
    lives = lives_of(operations, sizes, kept)
    buffers = ((sizes[value], first, lives.last[value]) for value, first in lives.first.items())
    held = alive(len(operations), buffers)
    return [nbytes + operation.workspace for nbytes, operation in zip(held, operations, strict=True)]
