"""PyTorch in float64 for the referee of a comparison. Imported only where PyTorch is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree


class _InDouble(TorchFunctionMode):
    """Whatever asks for float32 gets float64: modules that compute their norms in float32 whatever they are in."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.float:
            return args[0].double()
        if getattr(func, "__name__", "") == "__deepcopy__":  # its second argument holds all copied so far
            return func(*args, **(kwargs or {}))
        args, kwargs = _pytree.tree_map(_widened, (args, dict(kwargs or {})))
        return func(*args, **kwargs)


def _widened(leaf: Any) -> Any:
    return torch.float64 if leaf is torch.float32 else leaf


@contextlib.contextmanager
def in_double() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _InDouble():
            yield
    finally:
        torch.set_default_dtype(before)
