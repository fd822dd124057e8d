"""A module whose tensors lie in a checkpoint: while it is imported its parameters are the memory-mapped files.

Nothing of a checkpoint is read for a module that only has to be traced, so one of any size can be imported."""

from __future__ import annotations

import contextlib
import math
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from ...errors import ModelError, nearest
from ...ir import Array, DType
from ...tensors import read_checkpoint

_Slot = tuple[dict[str, Tensor | None], str]
"""A tensor's place in its module: the mapping and the key there."""

Contents = Mapping[str, Array]
"""Tensors by their names in `state_dict`, read-only; of tied ones each name."""


@contextlib.contextmanager
def placed(module: nn.Module, checkpoint: Path) -> Iterator[Contents]:
    """While the block runs, the tensors of the module's `state_dict` are those of the checkpoint, in its types, and
    buffers that no file holds are there. Afterwards the module is as it was. Raises ModelError where a tensor is
    missing, or is another than the module's."""
    slots = dict(_slots(module))
    found = _as_named_here(read_checkpoint(checkpoint), slots, getattr(module, "base_model_prefix", ""))
    before = {name: of[key] for name, (of, key) in slots.items()}
    contents = _contents(before, found, module, checkpoint)
    kept = [(part, dict(part._buffers)) for part in module.modules()]
    made: dict[int, Tensor] = {}
    try:
        _compute_buffers(module)
        for name, (of, key) in slots.items():
            old = before[name]
            assert old is not None
            made.setdefault(id(old), _like(old, contents[name]))
            of[key] = made[id(old)]
        yield {name: _read_only(array) for name, array in contents.items()}
    finally:
        for part, buffers in kept:
            part._buffers.clear()
            part._buffers.update(buffers)
        for name, (of, key) in slots.items():
            of[key] = before[name]


def refuse_without_contents(module: nn.Module) -> None:
    """Raises ModelError where a tensor of the module has only a shape."""
    for name, tensor in module.state_dict(keep_vars=True).items():
        if tensor.is_meta:
            raise ModelError(
                f"'{name}' is on the meta device, without contents: give the folder of safetensors files that holds "
                "them to from_checkpoint"
            )


def _slots(module: nn.Module) -> Iterator[tuple[str, _Slot]]:
    """Every tensor of the `state_dict`, each name of it."""
    for path, part in module.named_modules(remove_duplicate=False):
        prefix = f"{path}." if path else ""
        for key, parameter in part._parameters.items():
            if parameter is not None:
                yield prefix + key, (part._parameters, key)
        for key, buffer in part._buffers.items():
            if buffer is not None and key not in part._non_persistent_buffers_set:
                yield prefix + key, (part._buffers, key)


def _as_named_here(found: Mapping[str, Array], names: Collection[str], prefix: str) -> dict[str, Array]:
    """Names as the module has them. A model of transformers may have been saved without its head, whose prefix its
    tensors then lack, or with one; the oldest call the numbers of a norm gamma and beta.

    before  {"wte.weight": …, "h.0.ln_1.gamma": …}
    after   {"transformer.wte.weight": …, "transformer.h.0.ln_1.weight": …}"""
    renamed: dict[str, Array] = {}
    for name, array in found.items():
        plain = re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))
        forms = (name, f"{prefix}.{name}", name.removeprefix(f"{prefix}."), plain, f"{prefix}.{plain}")
        renamed.setdefault(next((form for form in forms if form in names and form not in renamed), name), array)
    return renamed


def _contents(
    tensors: Mapping[str, Tensor | None], found: Mapping[str, Array], module: nn.Module, checkpoint: Path
) -> dict[str, Array]:
    """The checkpoint's tensor for each name; a tied one may be there under any of its names."""
    first: dict[int, Array] = {}
    for name, tensor in tensors.items():
        if tensor is not None and name in found:
            first.setdefault(id(tensor), found[name])
    missing = [name for name, tensor in tensors.items() if id(tensor) not in first]
    if missing:
        more = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise ModelError(f"'{checkpoint}' has no tensor '{missing[0]}'{more}{nearest(missing[0], found)}")
    contents = {name: first[id(tensor)] for name, tensor in tensors.items()}
    for name, tensor in tensors.items():
        assert tensor is not None
        _refuse_another(name, contents[name], tensor, checkpoint)
    held = {name for name, _ in module.named_buffers(remove_duplicate=False)}
    if left := [name for name in found if name not in tensors and name.rpartition(".")[2] not in _last_parts(held)]:
        name = type(module).__name__
        warnings.warn(
            f"{len(left)} tensors of '{checkpoint}' are not in {name} and left out, such as '{left[0]}'",
            stacklevel=2,
        )
    return contents


def _last_parts(names: set[str]) -> set[str]:
    """What buffers are called in their modules: of those that are computed, old files may hold copies elsewhere."""
    return {name.rpartition(".")[2] for name in names}


def _refuse_another(name: str, array: Array, tensor: Tensor, checkpoint: Path) -> None:
    if array.shape != tuple(tensor.shape):
        raise ModelError(
            f"'{name}' is {list(array.shape)} in '{checkpoint}' and {list(tensor.shape)} in the module: "
            "make the module of the checkpoint's own configuration"
        )
    dtype = DType.of(array.dtype)
    if dtype.is_float != tensor.is_floating_point():
        raise ModelError(
            f"'{name}' is {dtype.value} in '{checkpoint}', which is no weight as the module has it: "
            "quantised checkpoints are not read, so save the model in bf16, f16 or f32"
        )


def _like(old: Tensor, array: Array) -> Tensor:
    """The contents in the place of `old`."""
    new = as_tensor(array)
    return nn.Parameter(new, requires_grad=old.requires_grad) if isinstance(old, nn.Parameter) else new


def as_tensor(array: Array) -> Tensor:
    """The same memory as a tensor."""
    if DType.of(array.dtype) is DType.BF16:
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


def _compute_buffers(module: nn.Module) -> None:
    """Contents for buffers that no file holds and the meta device has no contents of: of a model of transformers, as
    its `from_pretrained` computes them. They begin as NaN, by which one that nobody computes is noticed."""
    compute = getattr(module, "_init_weights", None)
    for path, part in module.named_modules():
        empty = {
            key: torch.full_like(buffer, math.nan if buffer.is_floating_point() else 0, device="cpu")
            for key, buffer in part._buffers.items()
            if buffer is not None and buffer.is_meta and key in part._non_persistent_buffers_set
        }
        if not empty:
            continue
        part._buffers.update(empty)
        if compute is not None:
            compute(part)
        for key, buffer in empty.items():
            if not buffer.is_floating_point() or bool(buffer.isnan().any()):
                name = f"{path}.{key}" if path else key
                raise ModelError(
                    f"the buffer '{name}' is on the meta device and in no file: make the module's buffers on the CPU "
                    "(parameters alone may be on the meta device)"
                )
