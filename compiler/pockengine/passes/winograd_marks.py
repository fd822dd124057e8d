"""Marks the convolutions that Winograd's minimal filtering may compute, with fewer multiplications."""

from __future__ import annotations

from dataclasses import replace

from ..ir import Graph, Node
from ..ops import Convolution, convolution_of
from ..ops.convolution import Geometry

WINOGRAD = "winograd"
"""Attribute of a convolution that may be computed so."""


def allow_winograd(graph: Graph) -> Graph:
    """3 x 3 convolutions of stride 1, and their input gradients, may be computed by Winograd's minimal filtering, whose
    transforms round: results are off by up to 5e-6 of the largest one. The backend chooses where it is quicker.

    conv2d(%x, %w)   ->   conv2d(%x, %w) {winograd: true}
    """
    return graph.with_(nodes=tuple(_marked(node) for node in graph.nodes))


def _marked(node: Node) -> Node:
    if convolution_of(node) not in (Convolution.FORWARD, Convolution.IMAGE_GRADIENT):
        return node
    geometry, kernel = Geometry.of(node.attrs), node.inputs[1].type.shape[2:]
    fits = geometry.stride == geometry.dilation == (1, 1) and geometry.groups == 1 and kernel == (3, 3)
    return replace(node, attrs={**node.attrs, WINOGRAD: True}) if fits else node
