"""Watches every call of a PyTorch function while a module is traced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch.overrides import TorchFunctionMode

from .gradients import GRAD_MODE, detached, gradient_mode, without_gradient


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
        if (result := detached(function, args)) is not None:
            return result
        return without_gradient(function, args, kwargs, function(*args, **kwargs))
