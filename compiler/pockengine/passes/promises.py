"""Checks of what each kind of region promises of its body. `ir.RegionKind` has the promises in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ..ir import DType, Graph, Node, RegionKind, Value
from ..ops import decompresses, is_kind
from ..ops.movement import ints
from .gradients import Gradients
from .moves import moves

Shape = tuple[int, ...]


def broken_promise(region: Node) -> str | None:
    """What a region does not keep of what its kind promises; None where it keeps all."""
    assert region.body is not None
    try:
        kind = region.region_kind
    except (KeyError, ValueError):
        return f"the region's kind is {region.attrs.get('kind')!r}, which is none"
    assert kind is not None
    return _of_every_region(region, region.body, kind) or _PROMISES[kind](region.body)


def _of_every_region(region: Node, body: Graph, kind: RegionKind) -> str | None:
    for what, outer, inner in (
        ("inputs", region.inputs, body.inputs),
        ("outputs", region.outputs, tuple(body.outputs.values())),
    ):
        if [value.type for value in outer] != [value.type for value in inner]:
            return f"the body's {what} are {_types(inner)}, the region's {_types(outer)}"
    if body.params or body.states or body.updates:
        return "the body has parameters, states or updates of its own"
    if literal := next((value for value in body.consts if value.type.rank), None):
        return f"the body's constant {literal.name} has axes"
    if nested := next((node for node in body.nodes if node.body is not None), None):
        return f"{nested.outputs[0].name} is a region in a region"
    read = {value for node in body.nodes for value in node.inputs} | set(body.outputs.values())
    if unread := next((value for value in body.values() if value not in read), None):
        return f"nothing in the body needs {unread.name}"
    bits = any(value.type.dtype is DType.BIT for node in body.nodes for value in node.outputs)
    return f"a region of kind {kind} makes bits" if bits and kind is not RegionKind.ELEMENTWISE else None


def _elementwise(body: Graph) -> str | None:
    if not body.nodes:
        return "it has no node"
    space = body.nodes[0].outputs[0].type.shape
    for node in body.nodes:
        if node.op == "broadcast_to" and node.inputs[0] not in body.inputs:
            return f"{node.output.name} is a broadcast of what is no input"
        if node.op != "broadcast_to" and (problem := _unlike(node, space)):
            return problem
    return None


def _moved(body: Graph) -> str | None:
    shapes = {value.type.shape for value in body.outputs.values()}
    if len(shapes) != 1:
        return f"its results have {len(shapes)} shapes"
    found = [node for node in body.nodes if moves(node) or (decompresses(node) and {*node.inputs} <= {*body.inputs})]
    other = next((node for node in body.nodes if node not in found and not is_kind(node, "elementwise")), None)
    if other:
        return f"it has a {other.op}"
    return None if found else "nothing in it is moved"


def _contraction(body: Graph) -> str | None:
    anchors = [node for node in body.nodes if is_kind(node, "contraction")]
    if len(anchors) != 1:
        return f"it has {len(anchors)} contractions"
    anchor, made = anchors[0], body.producers()
    before = _needed([anchor], made)
    for operand in dict.fromkeys(anchor.inputs):
        if problem := _operand(operand, body, made):
            return problem
    for node in body.nodes:
        if node is anchor or node in before:
            continue
        if problem := _unlike(node, anchor.output.type.shape):
            return problem
        if any(made.get(value) in before for value in node.inputs):
            return f"{node.output.name}, of the epilogue, reads what is made for the contraction's operands"
    early = next((value for value in body.outputs.values() if value not in made or made[value] in before), None)
    return f"the output {early.name} is there before the contraction" if early else None


def _operand(operand: Value, body: Graph, made: Mapping[Value, Node]) -> str | None:
    """What is wrong with how an anchor's operand is made."""
    if operand in body.inputs:
        return None
    if operand not in made:
        return f"the contraction's operand {operand.name} is a constant"
    if decompresses(made[operand]):
        outside = all(value in body.inputs for value in made[operand].inputs)
        return None if outside else f"{operand.name} is decompressed of what is no input"
    prologue = _needed([made[operand]], made) | {made[operand]}
    return next((problem for node in prologue if (problem := _unlike(node, operand.type.shape))), None)


def _row(body: Graph) -> str | None:
    return _reductions(body, trailing_axes=True)


def _column(body: Graph) -> str | None:
    problem = _reductions(body, trailing_axes=False)
    if problem:
        return problem
    made, late = body.producers(), set[Node]()
    space = next(node for node in body.nodes if is_kind(node, "reduction")).inputs[0].type.shape
    for node in body.nodes:
        reads_late = any(made.get(value) in late for value in node.inputs)
        if reads_late and (is_kind(node, "reduction") or node.output.type.shape == space):
            return f"{node.output.name}, on the loop space, reads what is made of sums over all of it"
        if reads_late or is_kind(node, "reduction"):
            late.add(node)
    return None


def _reductions(body: Graph, trailing_axes: bool) -> str | None:
    reductions = [node for node in body.nodes if is_kind(node, "reduction")]
    if not reductions:
        return "it has no reduction"
    space, axes = reductions[0].inputs[0].type.shape, ints(reductions[0].attrs, "axes")
    reduced = tuple(1 if axis in axes else size for axis, size in enumerate(space))
    if trailing(space, axes) is not trailing_axes:
        return f"the axes {axes} of {space} are {'not' if trailing_axes else 'all'} trailing"
    for node in body.nodes:
        if node in reductions:
            own = node.inputs[0].type.shape, ints(node.attrs, "axes")
            if own != (space, axes):
                return f"{node.output.name} reduces {own[1]} of {own[0]}, others {axes} of {space}"
        elif problem := _unlike(node, space, reduced):
            return problem
    return None


def _gradients(body: Graph) -> str | None:
    if Gradients.of(body.nodes) is None:
        return "they are not both gradients of one depthwise convolution with what belongs to them"
    layouts = {node.attrs["layout"] for node in body.nodes if is_kind(node, "contraction")}
    return None if layouts == {"NHWC"} else f"the images are {', '.join(sorted(layouts))}"


def trailing(shape: Shape, axes: Shape) -> bool:
    """Whether the reduced axes are the last ones, axes of size 1 aside."""
    real = [axis for axis, size in enumerate(shape) if size != 1]
    reduced = [axis for axis in real if axis in axes]
    return real[len(real) - len(reduced) :] == reduced


def _unlike(node: Node, *shapes: Shape) -> str | None:
    """What is wrong with a node that should be elementwise and of one of these shapes."""
    if not is_kind(node, "elementwise"):
        return f"{node.op} {node.outputs[0].name} is not elementwise"
    if node.output.type.shape in shapes:
        return None
    return f"{node.output.name} has the shape {node.output.type.shape}, not {' or '.join(map(str, shapes))}"


def _needed(nodes: Iterable[Node], made: Mapping[Value, Node]) -> set[Node]:
    """All that these nodes need, themselves aside."""
    found, pending = set[Node](), list(nodes)
    while pending:
        for value in pending.pop().inputs:
            node = made.get(value)
            if node is not None and node not in found:
                found.add(node)
                pending.append(node)
    return found


def _types(values: Iterable[Value]) -> str:
    return ", ".join(str(value.type) for value in values)


_PROMISES: Mapping[RegionKind, Callable[[Graph], str | None]] = {
    RegionKind.ELEMENTWISE: _elementwise,
    RegionKind.CONTRACTION: _contraction,
    RegionKind.ROW: _row,
    RegionKind.COLUMN: _column,
    RegionKind.MOVED: _moved,
    RegionKind.GRADIENTS: _gradients,
}
