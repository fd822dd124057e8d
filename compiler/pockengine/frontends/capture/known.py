"""Tensors whose contents are known while a module is traced: the inputs that the caller fixes, and what is computed of
nothing else. They stay real, so that a module may count with them (a grid of image patches decides shapes)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.weak import WeakIdKeyDictionary

_COUNTED = (torch.arange, torch.linspace, torch.tensor)
"""What makes tensors of numbers alone and is not written to afterwards."""


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
