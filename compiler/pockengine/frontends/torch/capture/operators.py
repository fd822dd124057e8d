"""Operators of the domain `pock`, as nodes of a traced module:

Dropout          ratio; mask: the shape of the mask where it is not the input's. Does nothing
Attention        ONNX's, with the attribute `dropout`
Gather           ONNX's, with the attribute `padding`: the `padding_idx` of an embedding, whose row gets no gradient
CumProd          as ONNX's of the opset that will have it; operands: x and the axis
Random           what `function` draws in `module`; no operands
StopGradient     does nothing; no gradient passes
StraightThrough  the first operand; its gradient goes to the second, of the same shape, instead
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
import torch
from torch import Tensor

from ...onnx.importer import OWN_DOMAIN

GRAD_MODE = torch._C._set_grad_enabled


def gradient_mode(enabled: bool) -> None:
    """What `torch.no_grad` calls, seen by autograd and not by the exporter, which would make a sub-graph of it."""
    with torch._C.DisableTorchFunction():
        GRAD_MODE(enabled)


def stopped(x: Tensor) -> Tensor:
    """x, of which autograd sees no further."""
    before = torch.is_grad_enabled()
    gradient_mode(False)
    try:
        return _node("StopGradient", [x], {}, x.shape)
    finally:
        gradient_mode(before)


def operator(name: str, operands: Sequence[Tensor], attributes: dict[str, Any], shape: Sequence[int]) -> Tensor:
    """A node with one result, of the first operand's element type."""
    if not torch.is_grad_enabled():
        operands = [stopped(x) if x.requires_grad else x for x in operands]
    return _node(name, operands, attributes, shape)


def _node(name: str, operands: Sequence[Tensor], attributes: dict[str, Any], shape: Sequence[int]) -> Tensor:
    x = operands[0]
    return torch.onnx.ops.symbolic(f"{OWN_DOMAIN}::{name}", operands, attributes, dtype=x.dtype, shape=shape, version=1)


def named(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The exported model, the captured nodes named for what they are instead of `node__symbolic_3`."""
    for node in proto.graph.node:
        if node.domain == OWN_DOMAIN:
            node.name = node.name.replace("_symbolic", node.op_type.lower())
    return proto
