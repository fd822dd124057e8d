"""Dropout, which an export would lose: a module is traced in evaluation mode, in which it does nothing.

An export in training mode would compute with it."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional

from .operators import operator

_ATTENTION = functional.scaled_dot_product_attention
_EMBEDDING = functional.embedding
_GATE = re.compile(r"\b0(\.0)? if not self\.training else\b|\bif self\.training else 0(\.0)?\b")
"""How attention modules (those of `transformers`) say that a probability is zero in evaluation."""
_CALL = re.compile(r"\bdropout\([^()]*\bself\.training\b")
"""A dropout called as a function, which is captured whatever the mode."""
_PATHS = ("DropPath", "StochasticDepth")
"""Endings of the names of classes that drop a whole sample of a residual branch."""


def _dropped(x: Tensor, p: float, mask: Sequence[int] = ()) -> Tensor:
    attributes: dict[str, Any] = {"ratio": float(p)} | ({"mask": list(mask)} if mask else {})
    return operator("Dropout", [x], attributes, x.shape) if p > 0.0 else x


def _dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return _dropped(input, p)


def _channel_dropout(
    unbatched: int, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels; `unbatched` is the rank of an input without a batch."""
    lead = 1 if input.dim() == unbatched else 2
    return _dropped(input, p, (*input.shape[:lead], *[1] * (input.dim() - lead)))


def _path_dropout(p: float, x: Tensor) -> Tensor:
    return _dropped(x, p, (x.shape[0], *[1] * (x.dim() - 1)))


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    query, key, value = _spread([query, key, value])
    if query.dim() == 4 and key.shape[1] == value.shape[1] == 1 < query.shape[1]:
        enable_gqa = True  # one head of keys spreads over all queries, which the exporter knows under this name only
    if dropout_p == 0.0 or query.dim() != 4:
        return _ATTENTION(query, key, value, attn_mask, 0.0, is_causal, scale=scale, enable_gqa=enable_gqa)
    attributes: dict[str, Any] = {"dropout": dropout_p, "is_causal": int(is_causal)}
    if scale is not None:
        attributes["scale"] = scale
    operands = [query, key, value] if attn_mask is None else [query, key, value, attn_mask]
    return operator("Attention", operands, attributes, (*query.shape[:-1], value.shape[-1]))


def _spread(operands: Sequence[Tensor]) -> Sequence[Tensor]:
    """With one batch: the shapes that PyTorch computes while it traces are those of the query alone."""
    batch = max(len(x) for x in operands)
    return [x if len(x) == batch else x.expand(batch, *x.shape[1:]) for x in operands]


def _embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None, *args: Any, **kwargs: Any) -> Tensor:
    if padding_idx is None:
        return _EMBEDDING(input, weight, None, *args, **kwargs)
    padding = padding_idx % weight.shape[0]
    return operator("Gather", [weight, input], {"padding": padding}, (*input.shape, weight.shape[1]))


_FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "dropout": _dropout,
    "dropout1d": partial(_channel_dropout, 2),
    "dropout2d": partial(_channel_dropout, 0),
    "dropout3d": partial(_channel_dropout, 4),
    "embedding": _embedding,
    "scaled_dot_product_attention": _attention,
}
"""What stands in for the functions of `torch.nn.functional`. PyTorch takes a batch for granted in `dropout2d`."""


def _called(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function under a name of `torch.nn.functional`, where PyTorch looks for it."""

    def call(*args: Any, **kwargs: Any) -> Tensor:
        return function(*args, **kwargs)

    call.__name__ = name
    return call


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


def is_dropout(module: nn.Module) -> bool:
    """Whether all that the module does in training is to drop samples."""
    return type(module).__name__.endswith(_PATHS)


def _path_probability(module: nn.Module) -> float:
    """The probability with which a module drops whole samples; 0 for any other module."""
    if not is_dropout(module) or getattr(module, "mode", "row") != "row":
        return 0.0
    return float(getattr(module, "drop_prob", None) or getattr(module, "p", None) or 0.0)


@contextlib.contextmanager
def dropout_captured(module: nn.Module) -> Iterator[None]:
    """While the block runs, a module in evaluation mode computes as before, and dropout can be seen in its trace."""
    gates = [part for part in module.modules() if not part.training and _gates_a_probability(part)]
    paths = {part: p for part in module.modules() if (p := _path_probability(part)) > 0.0}
    with contextlib.ExitStack() as stack:
        torch.overrides.get_overridable_functions()  # remembers the functions that it finds: not those below
        for name, function in _FUNCTIONS.items():
            stack.enter_context(mock.patch.object(functional, name, _called(name, function)))
        for part in gates:
            part.training = True
            stack.callback(setattr, part, "training", False)
        for part, p in paths.items():
            stack.enter_context(mock.patch.object(part, "forward", partial(_path_dropout, p)))
        yield
