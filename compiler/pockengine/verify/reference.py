"""The second side of a comparison: what a graph means, computed node by node with the operators' own references.

The only place that says who computes it. Knows no passes, no kernels and no plan.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..interp import Kernels, environment, run_node
from ..ir import Array, Graph, Node, Value


def values_of(graph: Graph, feeds: Mapping[str, Array]) -> dict[Value, Array]:
    """The contents of every value of a step from the initial parameters and states, in float64."""
    return environment(graph, widened({**graph.data, **feeds}), kernels())


def outputs_of(node: Node, inputs: list[Array], *, double: bool) -> list[Array]:
    """What one node makes of these inputs, in float64 or as it is declared."""
    return run_node(node, [widen(x) for x in inputs] if double else inputs, kernels())


def widen(x: Array) -> Array:
    """Floats in float64, anything else as it is."""
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def widened(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """All of them so."""
    return {name: widen(x) for name, x in arrays.items()}


def kernels() -> Kernels:
    """Quicker ways to compute what the references say: PyTorch's, where it is installed."""
    try:
        from ..frontends.torch.kernels import KERNELS
    except ImportError:
        return {}
    return KERNELS
