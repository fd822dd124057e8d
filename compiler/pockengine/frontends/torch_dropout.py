"""Dropout of a PyTorch module on its way through the exporter, which forgets it in evaluation mode and would compute
with it in training mode. While the module is exported, dropout is an operator of our own that does nothing; it becomes
ONNX's Dropout, and attention that drops weights an `Attention` of the domain `pock` with the attribute `dropout`.

Imported by `from_torch` only: it needs PyTorch."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

import torch
from onnxscript import opset18
from torch import Tensor, nn
from torch.nn import functional

_ATTENTION = functional.scaled_dot_product_attention
_DROPOUT = functional.dropout
_GATE = re.compile(r"\b0(\.0)? if not self\.training else\b|\bif self\.training else 0(\.0)?\b")
"""How attention modules (those of `transformers`) say that a probability is zero in evaluation."""
_CALL = re.compile(r"\bdropout\([^()]*\bself\.training\b")
"""A dropout called as a function, which is captured whatever the mode."""


@torch.library.custom_op("pock::dropout", mutates_args=())
def _dropout(x: Tensor, p: float) -> Tensor:
    return x.clone()


@_dropout.register_fake
def _(x: Tensor, p: float) -> Tensor:
    return torch.empty_like(x)


def _onnx_dropout(x: Any, p: float) -> Any:
    ratio: Any = p  # a constant of the graph
    kept, _ = opset18.Dropout(x, ratio)
    return kept


def translations() -> dict[Callable[..., Any], Callable[..., Any]]:
    """For the exporter's `custom_translation_table`."""
    return {torch.ops.pock.dropout.default: _onnx_dropout}


def _captured_dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    result: Tensor = torch.ops.pock.dropout(input, p) if p > 0.0 else _DROPOUT(input, p, False, inplace)
    return result


def _captured_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    if dropout_p == 0.0 or query.dim() != 4:
        return _ATTENTION(query, key, value, attn_mask, 0.0, is_causal, scale=scale, enable_gqa=enable_gqa)
    attributes: dict[str, Any] = {"dropout": dropout_p, "is_causal": int(is_causal)}
    if scale is not None:
        attributes["scale"] = scale
    operands = (query, key, value) if attn_mask is None else (query, key, value, attn_mask)
    shape = (*query.shape[:-1], value.shape[-1])
    return torch.onnx.ops.symbolic("pock::Attention", operands, attributes, dtype=query.dtype, shape=shape, version=1)


def _gates_a_probability(module: nn.Module) -> bool:
    """Whether the mode of this module itself decides nothing but a dropout probability passed on to attention."""
    if isinstance(module, nn.MultiheadAttention):
        return bool(module.dropout > 0.0)
    try:
        source = inspect.getsource(type(module).forward)
    except (OSError, TypeError):
        return False
    gates = len(_GATE.findall(source))
    return gates > 0 and gates + len(_CALL.findall(source)) == source.count("self.training")


@contextlib.contextmanager
def captured(module: nn.Module) -> Iterator[None]:
    """While the block runs, a module in evaluation mode computes as before, and dropout can be seen in its trace."""
    gates = [part for part in module.modules() if not part.training and _gates_a_probability(part)]
    patches: Mapping[str, Any] = {"dropout": _captured_dropout, "scaled_dot_product_attention": _captured_attention}
    for part in gates:
        part.training = True
    try:
        with mock.patch.multiple(functional, **patches):
            yield
    finally:
        for part in gates:
            part.training = False
