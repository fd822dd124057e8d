"""Tensors whose contents are known while a module is traced: the inputs that the caller fixes, whole numbers among the
module's buffers, and what is computed of nothing else. They stay real, so that a module may count with them (a grid of
image patches decides shapes)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.weak import WeakIdKeyDictionary

_WHOLE = (torch.int64, torch.int32)
_COUNTED = (torch.arange, torch.linspace, torch.tensor)
"""What makes tensors of numbers alone and is not written to afterwards."""


@contextlib.contextmanager
def counts(module: nn.Module) -> Iterator[list[Tensor]]:
    """While the block runs, single whole numbers among a module's buffers (the stride by which a convolution pads) are
    plain attributes, which a trace leaves real: copies, for some modules count in them."""
    found: list[tuple[nn.Module, str, Tensor]] = []
    for part in module.modules():
        for name, x in part._buffers.items():
            if x is not None and x.numel() == 1 and x.dtype in _WHOLE and name != "num_batches_tracked":
                found.append((part, name, x))
    orders = [(part, dict(part._buffers)) for part in dict.fromkeys(part for part, _, _ in found)]
    copies = []
    try:
        for part, name, x in found:
            copies.append(x.clone())
            del part._buffers[name]
            part.__dict__[name] = copies[-1]
        yield copies
    finally:
        for part, name, _ in found:
            part.__dict__.pop(name, None)
        for part, buffers in orders:
            part._buffers.clear()
            part._buffers.update(buffers)


class Known:
    """The tensors known in one trace."""

    def __init__(self, tensors: Iterable[Tensor] = ()) -> None:
        self._tensors = WeakIdKeyDictionary(dict.fromkeys(tensors, True))

    def covers(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Whether all of a call's operands are known. Where nothing is fixed, nothing is."""
        if not self._tensors:
            return False
        tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        return all(x in self._tensors for x in tensors) and (bool(tensors) or function in _COUNTED)

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The result of a call, computed now; its tensors are known from here on."""
        with _disable_current_modes():
            result = function(*args, **kwargs)
            if function is Tensor.__iter__:
                result = list(result)
        for x in pytree.tree_leaves(result):
            if isinstance(x, Tensor):
                self._tensors[x] = True
        return iter(result) if function is Tensor.__iter__ else result

    def places(self, index: Any) -> Any:
        """An index whose known boolean masks are the places that they choose."""
        parts: list[Any] = []
        for part in index if isinstance(index, tuple) else (index,):
            mask = isinstance(part, Tensor) and part.dtype is torch.bool and part in self._tensors
            parts.extend(self.call(torch.nonzero, (part,), {"as_tuple": True}) if mask else [part])
        return tuple(parts) if isinstance(index, tuple) or len(parts) > 1 else parts[0]
