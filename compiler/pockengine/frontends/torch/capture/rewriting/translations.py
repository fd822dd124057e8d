"""Functions of PyTorch that its exporter writes in operators with other gradients, with fewer digits, or not at all:
translated to operators of the domain `pock` that keep what they are. `operators/pytorch.py` imports those."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import onnx_ir as ir
import torch
from onnxscript import evaluator
from torch.onnx._internal.exporter._registration import ONNXRegistry

from ....onnx.importer import OWN_DOMAIN

Translation = Callable[..., Any]
"""(the arguments of an ATen operator, tensors as values of the model under construction) -> its results."""

_ATEN = torch.ops.aten

_registry = functools.cache(ONNXRegistry.from_torchlib)


def _nodes(name: str, inputs: Sequence[ir.Value | None], outputs: int, **attributes: Any) -> Sequence[ir.Value]:
    """A new node of ours; attributes that are None are left out."""
    given = {key: value for key, value in attributes.items() if value is not None}
    node = ir.Node(OWN_DOMAIN, name, inputs, ir.convenience.convert_attributes(given), num_outputs=outputs, version=1)
    recorder: Any = evaluator.default()
    recorder.nodes.append(node)
    return node.outputs


def _node(name: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
    return _nodes(name, inputs, 1, **attributes)[0]


def _same(name: str) -> Translation:
    """An operator of tensors alone."""
    return lambda *inputs: _node(name, *inputs)


def _axes(dim: int | Sequence[int] | None) -> list[int] | None:
    """As an attribute; None and no axes are all of them."""
    if dim is None or isinstance(dim, int):
        return None if dim is None else [dim]
    return list(dim) or None


def _vector_norm(
    x: ir.Value, ord: float = 2.0, dim: Sequence[int] | None = None, keepdim: bool = False, dtype: int = -1
) -> ir.Value:
    """Infinite orders are text: ONNX's tools print and compare attributes."""
    order = str(float(ord))
    return _node("VectorNorm", x, p=order, axes=_axes(dim), keepdims=int(keepdim), to=dtype if dtype > 0 else None)


def _clamp(x: ir.Value, min: Any = None, max: Any = None) -> ir.Value:
    """Bounds are numbers, or tensors; one of each is two nodes, the lower bound first."""
    tensors = [isinstance(bound, ir.Value) for bound in (min, max) if bound is not None]
    if any(tensors) and not all(tensors):
        return _clamp(_clamp(x, min=min), max=max)
    if any(tensors):
        return _node("Clamp", x, min, max)
    return _node("Clamp", x, lo=None if min is None else float(min), hi=None if max is None else float(max))


def _extremum(name: str) -> Translation:
    def translated(x: ir.Value, dim: int, keepdim: bool = False) -> Sequence[ir.Value]:
        return _nodes(name, [x], 2, axis=dim, keepdims=int(keepdim))

    return translated


def _deviation_and_mean(
    x: ir.Value, dim: Sequence[int] | None = None, correction: float | None = None, keepdim: bool = False
) -> Sequence[ir.Value]:
    correction = 1 if correction is None else int(correction)
    return _nodes("StandardDeviation", [x], 2, axes=_axes(dim), correction=correction, keepdims=int(keepdim))


def _deviation(*args: Any, **kwargs: Any) -> ir.Value:
    return _deviation_and_mean(*args, **kwargs)[0]


def _adaptive_max_pool(x: ir.Value, output_size: Sequence[int]) -> Sequence[ir.Value]:
    return _nodes("AdaptiveMaxPool", [x], 2, output_size=list(output_size))


def _logit(x: ir.Value, eps: float | None = None) -> ir.Value:
    return _node("Logit", x, eps=eps)


_REDUCTIONS = ("none", "mean", "sum")


def _binary_cross_entropy(p: ir.Value, t: ir.Value, weight: ir.Value | None = None, reduction: int = 1) -> ir.Value:
    return _node("BinaryCrossEntropy", p, t, weight, reduction=_REDUCTIONS[reduction])


def _with_logits(
    x: ir.Value, t: ir.Value, weight: ir.Value | None = None, pos_weight: ir.Value | None = None, reduction: int = 1
) -> ir.Value:
    return _node("BinaryCrossEntropyWithLogits", x, t, weight, pos_weight, reduction=_REDUCTIONS[reduction])


def _cumulative_product(x: ir.Value, dim: int, dtype: int = -1) -> ir.Value:
    return _node("CumulativeProduct", x, axis=dim, to=dtype if dtype > 0 else None)


def _cumulative_log_sum_exp(x: ir.Value, dim: int) -> ir.Value:
    return _node("CumulativeLogSumExp", x, axis=dim)


def _distances(a: ir.Value, b: ir.Value, p: float, mode: int | None = None) -> ir.Value:
    return _node("PairwiseDistances", a, b, p=str(float(p)))


def translations() -> dict[Callable[..., Any], Translation]:
    """For `torch.onnx.export(custom_translation_table=…)`."""
    return {
        _ATEN.linalg_vector_norm.default: _vector_norm,
        **{getattr(_ATEN.clamp, overload): _clamp for overload in ("default", "Tensor")},
        **{getattr(_ATEN.clamp_min, overload): _clamp for overload in ("default", "Tensor")},
        **{
            getattr(_ATEN.clamp_max, overload): lambda x, max: _clamp(x, None, max)
            for overload in ("default", "Tensor")
        },
        _ATEN.max.dim: _extremum("FirstMaximum"),
        _ATEN.min.dim: _extremum("FirstMinimum"),
        _ATEN.std.correction: _deviation,
        _ATEN.std_mean.correction: _deviation_and_mean,
        _ATEN.adaptive_max_pool2d.default: _adaptive_max_pool,
        _ATEN.adaptive_max_pool3d.default: _adaptive_max_pool,
        _ATEN.logit.default: _logit,
        _ATEN.logaddexp.default: _same("LogAddExp"),
        _ATEN.log_sigmoid.default: _same("LogSigmoid"),
        _ATEN.xlogy.Tensor: _same("XLogY"),
        _ATEN.special_entr.default: _same("Entropy"),
        _ATEN.hypot.default: _same("Hypotenuse"),
        _ATEN.sinc.default: _same("Sinc"),
        _ATEN.atan2.default: _same("Atan2"),
        _ATEN.lgamma.default: _same("LogGamma"),
        _ATEN.digamma.default: _same("Digamma"),
        _ATEN.erfinv.default: _same("InverseErf"),
        _ATEN.binary_cross_entropy.default: _binary_cross_entropy,
        _ATEN.binary_cross_entropy_with_logits.default: _with_logits,
        _ATEN.cumprod.default: _cumulative_product,
        _ATEN.logcumsumexp.default: _cumulative_log_sum_exp,
        _ATEN._cdist_forward.default: _distances,
    }


@contextlib.contextmanager
def registry_kept() -> Iterator[None]:
    """While the block runs, PyTorch's exporter takes copies of one table of its own translations. It would build a new
    one for every export, which takes as long as a forward pass of MobileNetV2 at batch 8."""

    def copied(opset_version: int) -> ONNXRegistry:
        table = copy.copy(_registry(opset_version))
        table.functions = {target: list(found) for target, found in table.functions.items()}
        return table

    with mock.patch.object(ONNXRegistry, "from_torchlib", staticmethod(copied)):
        yield
