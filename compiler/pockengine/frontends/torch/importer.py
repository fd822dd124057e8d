"""PyTorch -> Graph, through PyTorch's own ONNX exporter, unoptimised so that parameters keep name and layout."""

from __future__ import annotations

import contextlib
import inspect
import re
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import DynamicShapeError, ModelError, PockError, nearest
from ...ir import Array, Graph
from ..exported import quiet
from ..onnx.file import from_proto
from ..onnx.importer import import_model

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir
    from torch import Tensor, nn
    from torch.export import ExportedProgram
    from torch.onnx import ONNXProgram

    from .capture import CustomFunctions, Decisions, Derivatives, Rules

OPSET = 23
"""The first opset with attention as one operator."""

_LARGE_BYTES = 1 << 16

_MOST_BYTES = 1 << 30
"""Of the tensors in a checkpoint: more are only mapped, as computing with them would read them all."""

_DATA_DEPENDENT = "data-dependent expression"
"""What a trace says where Python asks for the contents of a tensor."""

_MISSING = re.compile(r"No ONNX function found for <OpOverload\(op='([\w.]+)'")
"""What the exporter says of an operator that it cannot translate."""

_TAKEN = re.compile(r"references nonexistent attribute \w+ of (\w+)")
"""What the exporter says of a submodule that is called as an attribute of its own graph module (code, graph, meta)."""


def from_torch(
    module: nn.Module,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    dims: Mapping[str, int] | None = None,
    *,
    functions: Rules | None = None,
    fixed: Collection[str] = (),
    verify: bool = False,
) -> Graph:
    """Import a module as its evaluation mode computes it; dropout stays in the graph, for recipes that turn it on.

    args, kwargs  example inputs; their shapes, batch included, are those of the compiled model
    dims          values of dynamic dimensions, for modules that mark their inputs' dimensions as dynamic
    functions     for `torch.autograd.Function`s whose backward pass is not the derivative of their forward pass: an
                  expression of the same arguments that has the gradient wanted (its value is not looked at)
    fixed         arguments whose contents, not only whose shapes, are those of the compiled model, as those that count
                  the patches of images (`image_grid_thw`). They are no inputs of the graph
    verify        compare the graph's outputs with the module's whatever the model's size

    The graph is evaluated on the example inputs, and refused where its outputs are not the module's: by how much, which
    output, and from which call on. Models of more than 50 G operations are compared only with `verify`.

    What is detached or computed under `torch.no_grad` has no gradient here either.

    Inputs are called as the module's `forward` calls them, parameters as its `state_dict` does, outputs by their key
    (`logits`) when the module returns a mapping, else `output`. A tensor that `state_dict` holds under several names
    (tied weights) is one parameter under the first of them, as in `named_parameters`. The module is left in the mode
    it was in. Raises ModelError when PyTorch is not installed, cannot export the module or exports another function."""
    return _from_module(module, _Call(args, kwargs, dims, functions, fixed, verify), None)


def from_checkpoint(
    module: nn.Module,
    weights: str | Path,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    fixed: Collection[str] = (),
) -> Graph:
    """Import a module whose tensors lie in safetensors files, as `from_torch` does: the module itself may be on the
    meta device, and is afterwards what it was. The files are memory-mapped.

    weights  a folder of safetensors files as Hugging Face's libraries save it, its index, or one such file. It has
             every tensor of the `state_dict` in the module's shape, and tensors are of the types that it has

    A module of more than 1 GiB is not run: only the shapes of what it computes are known, nothing is compared, and its
    Python must not ask for contents. Raises ModelError as `from_torch` does, and where the files do not fit."""
    return _from_module(module, _Call(args, kwargs, fixed=fixed), Path(weights))


@dataclass(frozen=True)
class _Call:
    """What `from_torch` is told beside the module."""

    args: Any
    kwargs: Mapping[str, Any] | None
    dims: Mapping[str, int] | None = None
    functions: Rules | None = None
    fixed: Collection[str] = ()
    verify: bool = False


def _from_module(module: nn.Module, call: _Call, weights: Path | None) -> Graph:
    """weights: where the contents of the module's tensors are; None: in the module."""
    try:
        from .capture import CustomFunctions, Decisions
    except ImportError:
        raise ModelError("from_torch needs PyTorch: pip install 'pockengine[torch]'") from None
    positional = call.args if isinstance(call.args, tuple) else (call.args,)
    named = dict(call.kwargs or {})
    constants: dict[str, Any] = {}
    if call.fixed:
        named = _by_name(module, positional, named)
        positional, constants = (), {name: _taken(named, name) for name in call.fixed}
    training = module.training
    module.eval()
    try:
        with _contents(module, weights) as contents:
            asked = _Asked(module, positional, named, constants, contents, call.verify)
            for decisions in (Decisions(wanted=False), Decisions(wanted=True)):
                try:
                    return _imported(asked, CustomFunctions(call.functions or {}), decisions, call.dims)
                except PockError as refusal:
                    if decisions.answers or not _decided_by_data(refusal):
                        raise
                    refused = refusal
            raise refused
    finally:
        module.train(training)


@dataclass(frozen=True)
class _Asked:
    """A module in evaluation mode, its arguments without names, with names, and fixed; what a checkpoint holds of it;
    whether it is to be compared whatever its size."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    constants: dict[str, Any]
    contents: Mapping[str, Array]
    verify: bool

    @property
    def is_run(self) -> bool:
        """Whether the module is computed, and not only the shapes of what it computes."""
        return self.verify or sum(array.nbytes for array in self.contents.values()) <= _MOST_BYTES

    def run(self, derivatives: Derivatives) -> Any:
        """What the module returns."""
        from .shapes import shapes_alone

        kwargs = {**self.kwargs, **self.constants}
        if self.is_run:
            return derivatives.run(self.module, self.args, kwargs)
        with shapes_alone(self.module, (self.args, kwargs)) as (args, kwargs):
            return derivatives.run(self.module, args, kwargs)


def _contents(module: nn.Module, weights: Path | None) -> contextlib.AbstractContextManager[Mapping[str, Array]]:
    """What a checkpoint holds of the module, which has it meanwhile; nothing where the module has it itself."""
    from .weights import placed, refuse_without_contents

    if weights is not None:
        return placed(module, weights)
    refuse_without_contents(module)
    return contextlib.nullcontext({})


def _imported(asked: _Asked, custom: CustomFunctions, decisions: Decisions, dims: Mapping[str, int] | None) -> Graph:
    from torch import Tensor

    from .agreement import refuse_another_function
    from .capture import Derivatives, Selections, captured, drawing_in_training, warn
    from .capture import named as renamed

    module, positional, named, constants = asked.module, asked.args, asked.kwargs, asked.constants
    derivatives, selections = Derivatives(), Selections()
    name = type(module).__name__
    with _explained(f"{name} does not run on the example inputs"):
        with custom.observed(), selections.observed(), decisions.observed():
            returned = asked.run(derivatives)
        outputs = [(name, x.detach() if isinstance(x, Tensor) else x) for name, x in named_tensors(returned)]
    with _explained(f"PyTorch cannot export {name} to ONNX", ", so write that in other functions of PyTorch"), quiet():
        watched = captured(module, custom, selections, decisions, constants)
        with watched, derivatives.written_out(module, positional, named):
            traced = _traced(module, positional, named)
        program = _exported(traced, [name for name, _ in outputs])
    _tell_apart(program.model)
    weights = _taken_out(program.model, asked.contents)
    proto = renamed(program.model_proto)
    tied = _tied_names(module)
    _rename(proto.graph, tied)
    _name_outputs(proto.graph, [name for name, _ in outputs])
    parameters = {name for name, tensor in module.state_dict().items() if tensor.is_floating_point()}
    file = from_proto(proto, {tied.get(name, name): array for name, array in weights.items()})
    graph = import_model(file, type(module).__name__, dims, parameters=parameters)
    if asked.is_run:
        refuse_another_function(graph, module, positional, {**named, **constants}, outputs, asked.verify)
    warn(decisions.settled)
    used = {value.name for value in graph.params}
    return graph.with_(untrained=_untrained(module, used, tied), draws=drawing_in_training(module))


@contextlib.contextmanager
def _explained(what: str, advice: str = "") -> Iterator[None]:
    """An error of PyTorch in the block as one sentence. advice: what to do where a line of the user's is at fault"""
    try:
        yield
    except PockError:
        raise
    except Exception as error:
        # PyTorch raises errors of many kinds, whose long reports stay available as the cause.
        raise ModelError(f"{what}: {_summary(error, advice)}") from error


def _decided_by_data(refusal: PockError) -> bool:
    """Whether a module was refused because its Python asks for the contents of tensors."""
    return isinstance(refusal, DynamicShapeError) or _asks_for_contents(_innermost(refusal))


def _asks_for_contents(error: BaseException) -> bool:
    from torch._subclasses.fake_tensor import DataDependentOutputException

    return _DATA_DEPENDENT in str(error) or isinstance(error, DataDependentOutputException)


def _untrained(module: nn.Module, used: set[str], tied: Collection[str]) -> dict[str, str]:
    """What PyTorch does not train -> why, as the end of a sentence."""
    from torch import nn

    found = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        if not tensor.is_floating_point():
            continue
        if not isinstance(tensor, nn.Parameter):
            found[name] = "is a buffer of the module"
        elif not tensor.requires_grad:
            found[name] = "has requires_grad=False in the module"
        elif name not in used:
            found[name] = "is not used for what the module returns"
    return {name: why for name, why in found.items() if name not in tied}


def _by_name(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call, each under its name."""
    signature = inspect.signature(module.forward)
    named: dict[str, Any] = {}
    for name, value in signature.bind(*args, **kwargs).arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            raise ModelError(f"'fixed' needs arguments with names, and {type(module).__name__} takes a list of them")
        named.update(value if kind is inspect.Parameter.VAR_KEYWORD else {name: value})
    return named


def _taken(named: dict[str, Any], name: str) -> Any:
    if name not in named:
        raise ModelError(f"there is no argument '{name}' to be fixed{nearest(name, named)}")
    return named.pop(name)


def _traced(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExportedProgram:
    """Only the plain Python of `forward` is traced (`strict=False`): the exporter's other way would not run what stands
    in for PyTorch's functions."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    # Of the attention kernels only the plain one has outputs whose strides the exporter's decompositions repeat.
    with sdpa_kernel(SDPBackend.MATH):
        return torch.export.export(module, args, kwargs, strict=False)


def _exported(traced: ExportedProgram, output_names: Sequence[str]) -> ONNXProgram:
    """The trace as PyTorch's exporter writes it."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from .capture import registry_kept, translations

    with sdpa_kernel(SDPBackend.MATH), registry_kept():
        program = torch.onnx.export(
            traced,
            dynamo=True,
            optimize=False,
            verbose=False,
            opset_version=OPSET,
            output_names=output_names,
            custom_translation_table=translations(),
        )
    assert program is not None
    return program


def _tell_apart(model: ir.Model) -> None:
    """The exporter names what a node makes after its function, also where a weight has that name (`view`, `mean`)."""
    for node in model.graph:
        for value in node.outputs:
            if value.name in model.graph.initializers and not value.is_graph_output():
                value.name = f"{value.name}.made"


def _taken_out(model: ir.Model, contents: Mapping[str, Array]) -> dict[str, Array]:
    """The large initializers, copies unless `contents` has them. The model then only names them, as if they were in a
    file: the protobuf library would copy them twice more, and cannot hold 2 GB."""
    from onnx_ir import ExternalTensor, Shape

    arrays: dict[str, Array] = {}
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is not None and tensor.nbytes > _LARGE_BYTES:
            arrays[name] = contents[name] if name in contents else np.array(tensor.numpy(), order="C")
            shape = Shape(arrays[name].shape)
            value.const_value = ExternalTensor("weights", 0, tensor.nbytes, tensor.dtype, shape=shape, name=name)
    return arrays


def _tied_names(module: nn.Module) -> dict[str, str]:
    """The further names of each tensor that `state_dict` holds more than once -> its first name."""
    first: dict[int, str] = {}
    state = module.state_dict(keep_vars=True)
    names = {name: first.setdefault(id(tensor), name) for name, tensor in state.items()}
    return {name: kept for name, kept in names.items() if name != kept}


def _rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]


def _name_outputs(graph: onnx.GraphProto, names: Sequence[str]) -> None:
    """A tensor that the module returns twice has one name after exporting, and gets the others back here."""
    from onnx import helper

    for output, name in zip(graph.output, names, strict=True):
        if output.name != name:
            graph.node.append(helper.make_node("Identity", [output.name], [name], name=f"{name}.again"))
            output.name = name


def named_tensors(result: Any, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """(name, tensor) of everything a module returned, in the order in which the exporter flattens it. Numbers and texts
    among it are left out."""
    if result is None or isinstance(result, bool | int | float | str):
        return
    if isinstance(result, Mapping):
        for key, item in result.items():
            yield from named_tensors(item, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(result, Sequence):
        for index, item in enumerate(result):
            yield from named_tensors(item, f"{prefix or 'output'}.{index}")
    else:
        yield prefix or "output", result


def _summary(error: BaseException, advice: str) -> str:
    """The first line of the innermost cause, or what to do about it."""
    error = _innermost(error)
    if _asks_for_contents(error) and (place := _place(error)) is not None:
        return (
            f"{place} decides by the contents of a tensor: give the arguments that it depends on as 'fixed', or let "
            "torch.where choose"
        )
    if missing := _MISSING.search(str(error)):
        return f"its exporter has no word for '{missing[1]}': write it in other functions"
    if taken := _TAKEN.search(str(error)):
        return f"the exporter has an attribute '{taken[1]}' of its own, so rename the submodule '{taken[1]}'"
    line = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    place = _place(error)
    return f"{line}; it comes from {place}{advice}" if place else line


def _innermost(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _place(error: BaseException) -> str | None:
    """File, line and text of the innermost line that is neither PyTorch's nor ours; None where there is none."""
    import torch

    own = (str(Path(torch.__file__).parent), str(Path(__file__).parents[2]))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(own)]
    if not frames or not frames[-1].line:
        return None
    return f"line {frames[-1].lineno} of {Path(frames[-1].filename).name} ('{frames[-1].line}')"
