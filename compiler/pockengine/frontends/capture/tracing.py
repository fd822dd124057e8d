"""Watches every call of a PyTorch function while a module is traced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from .experts import grouped_product
from .gradients import GRAD_MODE, detached, gradient_mode, without_gradient

REPLACED: dict[Callable[..., Any], Callable[..., Any]] = {
    getattr(place, name): grouped_product
    for place, name in ((torch, "_grouped_mm"), (functional, "grouped_mm"))
    if hasattr(place, name)
}
"""What stands in for functions that cannot be exported."""


class Tracing(TorchFunctionMode):
    """Active inside the module's `forward`. A call within a call of PyTorch's own is not seen."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if function == GRAD_MODE:
            return gradient_mode(*args)
        if function in REPLACED:
            return REPLACED[function](*args, **kwargs)
        if (result := detached(function, args)) is not None:
            return result
        return without_gradient(function, args, kwargs, function(*args, **kwargs))
