"""Makes a loss that the user brings into a graph for one model: whose outputs it reads, of which shapes.

A file's dynamic dimensions take the sizes that the model's outputs and inputs have; a function is exported with
examples of these shapes. What it holds besides (class weights, a network to compare with) is constant."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...errors import PockError, RecipeError
from ...ir import DType, Graph, TensorType, parse_type, render
from .own import LossGraph

if TYPE_CHECKING:
    from torch import Tensor


def bind(loss: LossGraph, model: Graph) -> LossGraph:
    """The loss with its graph for `model`; RecipeError where it cannot be made or does not fit."""
    if loss.graph is not None:
        return _checked(loss, _Known.of(model))
    known = _Known.of(model)
    if loss.onnx is not None:
        return _checked(_of_file(loss, known), known)
    return _checked(_of_function(loss, known), known)


@dataclass(frozen=True)
class _Known:
    """What a loss may read of a model: name -> type of its outputs and, where no output is called so, its inputs."""

    types: Mapping[str, TensorType]
    outputs: tuple[str, ...]
    batch: int

    @classmethod
    def of(cls, model: Graph) -> _Known:
        types = {value.name: value.type for value in model.inputs}
        types |= {name: value.type for name, value in model.outputs.items()}
        return cls(types, tuple(model.outputs), model.batch)


def _checked(loss: LossGraph, known: _Known) -> LossGraph:
    """Raises RecipeError unless the graph gives a loss, and reads what the model and the targets have."""
    graph, names = loss.graph, loss.inputs
    assert graph is not None and names is not None
    if len(graph.outputs) != 1:
        raise RecipeError(f"{loss.called} has {len(graph.outputs)} outputs ({', '.join(graph.outputs)}): give it one")
    (result,) = graph.outputs.values()
    if not result.type.dtype.is_float:
        raise RecipeError(f"{loss.called} gives {result.type}, and a loss is a number of floating point")
    if result.type.size != 1 and (not result.type.rank or result.type.shape[0] != known.batch):
        raise RecipeError(
            f"{loss.called} gives {result.type}: a loss is one number, or one for each of the {known.batch} samples "
            "of the batch"
        )
    for name, value in zip(names, graph.inputs, strict=True):
        found, wanted = known.types.get(name), value.type
        kind = "output" if name in known.outputs else "input"
        if found is not None and (found.shape != wanted.shape or found.dtype.is_float != wanted.dtype.is_float):
            raise RecipeError(f"{loss.called} reads {wanted} as '{name}', and the model's {kind} '{name}' is {found}")
    loss.reads(known.outputs)
    return loss


def _names(loss: LossGraph, own: Sequence[str]) -> tuple[str, ...]:
    """What the loss reads, in the order of its own inputs."""
    if loss.inputs is None:
        return tuple(own)
    if len(loss.inputs) != len(own):
        raise RecipeError(
            f"{loss.called} has {len(own)} inputs ({', '.join(own)}), and the recipe names {len(loss.inputs)}: "
            "say what each of them reads"
        )
    return loss.inputs


# a file


def _of_file(loss: LossGraph, known: _Known) -> LossGraph:
    from ...frontends.onnx.file import parse_onnx
    from ...frontends.onnx.importer import import_model

    if loss.content is None:
        raise RecipeError(
            f"{loss.called} has not been read: load the recipe from its file, or say where the loss lies with "
            "the recipe's `with_loss_files(folder)`"
        )
    try:
        file = parse_onnx(str(loss.onnx), loss.content)
        inputs = [value for value in file.proto.graph.input if value.name not in file.tensors]
        names = _names(loss, [value.name for value in inputs])
        dims = _dims(loss, known, dict(zip(names, inputs, strict=True)))
        graph = import_model(file, "loss", dims, parameters=())
    except RecipeError:
        raise
    except PockError as error:
        raise RecipeError(f"{loss.called} cannot be used: {error}") from None
    return replace(loss, inputs=names, graph=graph)


def _dims(loss: LossGraph, known: _Known, inputs: Mapping[str, Any]) -> dict[str, int]:
    """Dynamic dimension -> size: that of the output or input of the model that has it, else the batch where it comes
    first."""
    dims: dict[str, int] = {}
    first: set[str] = set()
    for name, value in inputs.items():
        shape, found = value.type.tensor_type.shape.dim, known.types.get(name)
        if found is not None and len(shape) != found.rank:
            raise RecipeError(f"{loss.called} reads {len(shape)} axes as '{name}', and the model's is {found}")
        for axis, dim in enumerate(shape):
            if dim.HasField("dim_value"):
                continue
            symbol = dim.dim_param or f"{value.name}:{axis}"
            if axis == 0:
                first.add(symbol)
            if found is not None and dims.setdefault(symbol, found.shape[axis]) != found.shape[axis]:
                raise RecipeError(
                    f"{loss.called} calls axis {axis} of '{name}' {symbol}, which is {dims[symbol]} elsewhere and "
                    f"{found.shape[axis]} here"
                )
    return {**dict.fromkeys(first, known.batch), **dims}


# a function


def _of_function(loss: LossGraph, known: _Known) -> LossGraph:
    if loss.function is None:
        raise RecipeError(
            f"{loss.called} is Python code, which a recipe alone does not get to run: give the function in Python, "
            "or 'pock compile --import-losses'"
        )
    try:
        from torch import nn
    except ImportError:
        raise RecipeError(f"{loss.called} needs PyTorch: pip install 'pockengine[torch]'") from None
    function = loss.function
    if isinstance(function, nn.Module) and (learned := [k for k, v in function.named_parameters() if v.requires_grad]):
        raise RecipeError(
            f"{loss.called} has parameters of its own ('{learned[0]}'), which would not be trained: make them part of "
            "the model, or say 'requires_grad_(False)'"
        )
    declared = {name: _type(text, known.batch) for name, text in loss.targets}
    names = _names(loss, _arguments(loss, function, {*known.types, *declared}))
    types = [_input_type(loss, name, known, declared) for name in names]
    graph = _exported(loss, function, types)
    digest = hashlib.sha256(render(graph).encode()).hexdigest()
    return replace(loss, inputs=names, graph=graph, sha256=digest)


def _arguments(loss: LossGraph, function: Callable[..., Any], known: set[str]) -> list[str]:
    """The arguments that get tensors: those without a default, and those that are called like one."""
    if loss.inputs is not None:
        return list(loss.inputs)
    try:
        found = inspect.signature(getattr(function, "forward", function)).parameters.values()
    except (TypeError, ValueError):
        raise RecipeError(f"{loss.called} does not say what it reads: name it under 'inputs'") from None
    plain = [p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    count = max((i + 1 for i, p in enumerate(plain) if p.default is p.empty or p.name in known), default=0)
    return [parameter.name for parameter in plain[:count]]


def _input_type(loss: LossGraph, name: str, known: _Known, declared: Mapping[str, TensorType]) -> TensorType:
    if name in known.types:
        return known.types[name]
    if name in declared:
        return declared[name]
    raise RecipeError(
        f"{loss.called} reads '{name}', which the model has neither as an output ({', '.join(known.outputs)}) nor as "
        f"an input: say in 'inputs' which output it reads, or in 'targets' what it is, as in "
        f"'targets: {{{name}: \"i64[batch]\"}}'"
    )


def _type(text: str, batch: int) -> TensorType:
    return parse_type(text.replace("batch", str(batch)))


def _exported(loss: LossGraph, function: Callable[..., Any], types: Sequence[TensorType]) -> Graph:
    """The function's graph, with everything it holds constant."""
    import torch
    from torch import nn

    from ...frontends import from_torch

    class OwnLoss(nn.Module):
        """Calls the function; a module's tensors are its buffers."""

        def __init__(self) -> None:
            super().__init__()
            self.function = function

        def forward(self, *tensors: Tensor) -> Any:
            return self.function(*tensors)

    examples, read = tuple(_example(type, seed) for seed, type in enumerate(types)), ", ".join(map(str, types))
    try:
        with torch.no_grad():
            result = function(*examples)
    except Exception as error:  # the user's own code
        reason = (str(error).strip().splitlines() or [""])[0].rstrip(".")
        raise RecipeError(f"{loss.called} fails on {read} with {type(error).__name__}: {reason}") from error
    if not isinstance(result, torch.Tensor):
        raise RecipeError(f"{loss.called} gives {type(result).__name__}, and a loss is one number: return a tensor")
    try:
        graph = from_torch(OwnLoss(), examples)
    except PockError as error:
        raise RecipeError(f"{loss.called} cannot be used: {error}") from None
    if len(graph.inputs) != len(types):
        raise RecipeError(f"{loss.called} has {len(graph.inputs)} inputs after export, not {len(types)}")
    held = {value: graph.data[value.name] for value in graph.params}
    return graph.with_(params=(), data={}, consts={**graph.consts, **held})


def _example(type: TensorType, seed: int) -> Tensor:
    """Numbers between 0 and 1, which most losses accept (probabilities, widths of boxes), and zeros of other types."""
    import torch

    dtype = getattr(torch, _TORCH[type.dtype])
    if type.dtype.is_float:
        example = torch.rand(type.shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
        return example.requires_grad_()  # so that the export sees what the function detaches
    return torch.zeros(type.shape, dtype=dtype)


_TORCH = {
    DType.F64: "float64",
    DType.F32: "float32",
    DType.F16: "float16",
    DType.BF16: "bfloat16",
    DType.BOOL: "bool",
    DType.I8: "int8",
    DType.I16: "int16",
    DType.I32: "int32",
    DType.I64: "int64",
    DType.U8: "uint8",
    DType.U16: "uint16",
    DType.U32: "uint32",
    DType.U64: "uint64",
}
