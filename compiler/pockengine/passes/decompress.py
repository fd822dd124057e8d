"""Frozen weights are decompressed inside the contractions that read them."""

from __future__ import annotations

from ..ir import Graph, Node, RegionKind, Value
from ..ops import decompresses, is_kind, prune


def decompress_inside(graph: Graph) -> Graph:
    """Move `dequantize_blocks` into every contraction region that reads its result, so that the weight is unpacked
    block by block and its f32 numbers are in memory for no one.

    %d = dequantize_blocks(%q, %s); %y = region(%x, %d) {contraction}   ->   %y = region(%x, %q, %s) {contraction}
    """
    unpacking = {node.output: node for node in graph.nodes if decompresses(node)}
    if not unpacking:
        return graph
    return prune(graph.with_(nodes=tuple(_absorbed(node, unpacking) for node in graph.nodes)))


def _absorbed(region: Node, unpacking: dict[Value, Node]) -> Node:
    if region.region_kind is not RegionKind.CONTRACTION or region.body is None:
        return region
    body = region.body
    anchor = next(node for node in body.nodes if is_kind(node, "contraction"))
    weight = next((value for value in anchor.inputs if value in unpacking), None)
    if weight is None or sum(node.inputs.count(weight) for node in body.nodes) != 1:
        return region
    unpack = unpacking[weight]
    inputs = tuple(dict.fromkeys((*(value for value in body.inputs if value is not weight), *unpack.inputs)))
    inner = body.with_(inputs=inputs, nodes=(unpack, *body.nodes))
    return Node("region", inputs, region.outputs, region.attrs, inner, region.phase, region.origin)
