"""Whether an imported PyTorch module computes what the module computes, and where the two part if it does not.

The exporter may write down another function than the module's (a branch that depends on data, a constant that is none),
and so may our importer: the loss would look plausible and the training be wrong. Imported only where PyTorch is."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree

from ...errors import ModelError
from ...interp import environment, evaluate
from ...ir import Array, DType, Graph, Node, Value
from ..exported import operations
from .kernels import KERNELS
from .trace import Call, Trace, relative_error

MOST_OPERATIONS = 5e10
"""Above this many operations of a forward pass `from_torch` compares nothing unless it is asked to: it would take
longer than the rest of the import."""

_TOLERANCE = 1e-4
"""Of an output, relative to its scale; float64 decides beyond it."""
_ROUNDINGS = 32
"""How many times the rounding of a narrow format an output may be off."""
_AS_FAR = 10.0
"""How many times as far from our float64 result as ours PyTorch's float32 one may be, if it is the same function."""


def refuse_another_function(
    graph: Graph,
    module: nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    expected: Sequence[tuple[str, Tensor]],
    always: bool = False,
) -> None:
    """Raise ModelError when the graph's outputs are not those `expected`, which the module gave for these inputs.

    always  whether to compare models of more than MOST_OPERATIONS too"""
    if not always and operations(graph) > MOST_OPERATIONS:
        return
    inputs = bound(graph, module, args, kwargs)
    if inputs is None:
        if always:
            raise ModelError(f"the inputs of {type(module).__name__} cannot be matched with the imported graph's")
        return
    found = evaluate(graph, inputs, KERNELS)
    compared = {name: array(x) for name, x in expected if name in found and isinstance(x, Tensor)}
    errors = {name: relative_error(found[name], theirs) for name, theirs in compared.items()}
    wrong = {name: error for name, error in errors.items() if error > _allowed(graph, graph.outputs[name].type.dtype)}
    if not wrong or _is_rounding(graph, inputs, found, {name: compared[name] for name in wrong}):
        return
    with evaluating(module):  # with gradients: its forward pass may take some
        again = zip(_tensors(module(*args, **kwargs)), (x for _, x in expected if isinstance(x, Tensor)), strict=False)
        if any(relative_error(array(a), array(b)) > 0 for a, b in again):
            raise ModelError(
                f"{type(module).__name__} gives other outputs each time it is called with the same inputs: "
                "it draws random numbers or keeps count, so take that out of what is imported"
            )
        first, node = first_difference(graph, inputs, module, args, kwargs)
    name = max(wrong, key=lambda key: wrong[key])
    raise ModelError(_sentence(type(module).__name__, name, found[name], compared[name], first, node))


def _sentence(module: str, name: str, found: Array, theirs: Array, first: Call | None, node: str) -> str:
    if found.shape != theirs.shape:
        how = f"is {list(found.shape)} and should be {list(theirs.shape)}"
    elif theirs.dtype.kind in "biu":
        how = f"differs in {np.count_nonzero(found != theirs)} of {theirs.size} elements"
    else:
        with np.errstate(invalid="ignore"):
            apart = np.nanmax(np.abs(found.astype(np.float64) - theirs), initial=0.0)
        how = f"is off by {apart:.2g} where values are up to {np.nanmax(np.abs(theirs), initial=0.0):.2g}"
    where = "it could not be found from where on; replace parts of the module to find out"
    if first is not None:
        of = f", the model's node '{node}'" if node else ""
        where = f"the two part at {first}{of}: write what it computes in other functions of PyTorch"
    return f"what PyTorch exports of {module} is not what the module computes: the output '{name}' {how}; {where}"


def matched(
    graph: Graph, module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Tensor] | None:
    """The module's arguments by the names of the graph's inputs: those of `forward`, or where it takes collections,
    their tensors in order. None where that is not so."""
    try:
        arguments = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return None
    names = [value.name for value in graph.inputs]
    tensors = [arguments[name] for name in names if isinstance(arguments.get(name), Tensor)]
    if len(tensors) != len(names):
        tensors = [leaf for leaf in _pytree.tree_leaves(list(arguments.values())) if isinstance(leaf, Tensor)]
    return dict(zip(names, tensors, strict=True)) if len(tensors) == len(names) else None


def bound(graph: Graph, module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Array] | None:
    """The same as arrays of the types that the graph reads; None also where they are of other shapes."""
    found = matched(graph, module, args, kwargs)
    types = {value.name: value.type for value in graph.inputs}
    if found is None or any(tuple(tensor.shape) != types[name].shape for name, tensor in found.items()):
        return None
    return {name: array(tensor, types[name].dtype) for name, tensor in found.items()}


def array(tensor: Tensor, dtype: DType | None = None) -> Array:
    """The contents as numpy knows them, narrow floats as float32, or in the format given."""
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    if tensor.dtype in (torch.bfloat16, torch.float16):
        tensor = tensor.float()
    contents: Array = tensor.numpy()
    return contents if dtype is None else contents.astype(dtype.numpy, copy=False)


def first_difference(
    graph: Graph, inputs: Mapping[str, Array], module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Call | None, str]:
    """The first call of a PyTorch function whose result the graph does not have, though it has those that it reads; and
    the node of the model that reads those in its place, or an empty text. None where all results are there."""
    values = environment(graph, inputs, KERNELS)
    trace = Trace(module, values)
    with trace:
        result = module(*args, **kwargs)
    call = trace.first_difference(_tensors(result))
    if call is None:
        return None, ""
    read = [value for index in call.reads if (value := trace.calls[index].value)] or list(graph.inputs)
    return call, _reader(graph, values, read)


def _reader(graph: Graph, values: Mapping[Value, Array], read: Sequence[Value]) -> str:
    """The node that makes something of most of the values `read`: its origin, or an empty text. Several values may have
    the same contents (a reshape, the last step of a composite)."""
    alike = [{v for v in values if v is one or relative_error(values[v], values[one]) == 0.0} for one in read]

    def covered(node: Node) -> int:
        if any(value in group for group in alike for value in node.outputs):
            return 0
        return sum(not group.isdisjoint(node.inputs) for group in alike)

    best = max(graph.nodes, key=covered, default=None)
    return best.origin if best and covered(best) else ""


@contextlib.contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """The module in evaluation mode, and afterwards each of its parts in the mode it was in."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def _tensors(result: Any) -> list[Tensor]:
    """Of what a module returned, in the order in which the exporter flattens it."""
    if result is None:
        return []
    if isinstance(result, Tensor):
        return [result]
    if not isinstance(result, Mapping | Sequence):
        return []
    parts = result.values() if isinstance(result, Mapping) else result
    return [tensor for part in parts for tensor in _tensors(part)]


def _allowed(graph: Graph, dtype: DType) -> float:
    """The error an output may have; integers none."""
    if not dtype.is_float:
        return 0.0
    narrow = {value.type.dtype for value in graph.values()} & {DType.BF16, DType.F16}
    eps = 2.0**-8 if DType.BF16 in narrow else 2.0**-11 if narrow else 0.0
    return max(_TOLERANCE, _ROUNDINGS * eps)


def _is_rounding(
    graph: Graph, inputs: Mapping[str, Array], found: Mapping[str, Array], expected: Mapping[str, Array]
) -> bool:
    """Whether PyTorch's float32 is about as far from our float64 as our float32 is: deep networks may amplify rounding
    to anything, and then both are."""
    wide = {**graph.data, **inputs}
    wide = {name: x.astype(np.float64) if x.dtype == np.float32 else x for name, x in wide.items()}
    exact = evaluate(graph, wide, KERNELS)
    for name, theirs in expected.items():
        if theirs.shape != found[name].shape:
            return False
        if theirs.dtype.kind in "biu":
            if not np.array_equal(exact[name], theirs):
                return False
        elif not relative_error(theirs, exact[name]) <= _AS_FAR * relative_error(found[name], exact[name]):
            return False
    return True
