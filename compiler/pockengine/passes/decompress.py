"""Weights that are smaller in memory than their numbers are unpacked inside the contractions that read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..ir import Graph, Node, RegionKind, Value
from ..ops import decompresses, is_kind, prune, widens
from .prologues import packed


def decompress_inside(graph: Graph) -> Graph:
    """Move `dequantize_blocks` of a weight, and the widening of 16-bit floats, into every contraction region that reads
    the result, so that the weight is unpacked block by block and its f32 numbers are in memory for no one. 16-bit
    floats are widened by packers, and by no other template.

    %d = dequantize_blocks(%q, %s); %y = region(%x, %d) {contraction}   ->   %y = region(%x, %q, %s) {contraction}
    %d = region(%w) {elementwise: cast}; %y = region(%x, %d) {contraction}   ->   %y = region(%x, %w) {contraction}
    """
    params = {*graph.params}

    def fits(unpacks: Node, anchor: Node) -> bool:
        if decompresses(unpacks):
            return params.issuperset(unpacks.inputs)
        return unpacks.output in packed(anchor)

    return _inside(graph, fits)


def decompress_all_inside(graph: Graph) -> Graph:
    """The same of activations in fewer bits, for kernels that take both operands so."""
    return _inside(graph, lambda unpacks, anchor: True)


Fits = Callable[[Node, Node], bool]
"""Whether a contraction can do itself what a node does to one of its operands."""


def _inside(graph: Graph, fits: Fits) -> Graph:
    unpacking = {node.output: node for node in map(_unpacks, graph.nodes) if node is not None}
    if not unpacking:
        return graph
    return prune(graph.with_(nodes=tuple(_absorbed(node, unpacking, fits) for node in graph.nodes)))


def _unpacks(node: Node) -> Node | None:
    """What a node of the graph does, if it is nothing but to unpack a tensor."""
    if decompresses(node):
        return node
    if node.region_kind is not RegionKind.ELEMENTWISE or node.body is None or len(node.body.nodes) != 1:
        return None
    (inner,) = node.body.nodes
    return Node(inner.op, node.inputs, node.outputs, inner.attrs) if widens(inner) else None


def _absorbed(region: Node, unpacking: Mapping[Value, Node], fits: Fits) -> Node:
    if region.region_kind is not RegionKind.CONTRACTION or region.body is None:
        return region
    body = region.body
    anchor = next(node for node in body.nodes if is_kind(node, "contraction"))
    weights = [
        value
        for value in dict.fromkeys(anchor.inputs)
        if value in unpacking
        and sum(node.inputs.count(value) for node in body.nodes) == 1
        and fits(unpacking[value], anchor)
    ]
    if not weights:
        return region
    unpacks = [unpacking[value] for value in weights]
    kept = (value for value in body.inputs if value not in weights)
    inputs = tuple(dict.fromkeys((*kept, *(value for node in unpacks for value in node.inputs))))
    inner = body.with_(inputs=inputs, nodes=(*unpacks, *body.nodes))
    return Node("region", inputs, region.outputs, region.attrs, inner, region.phase, region.origin)
