"""Watches every call of a PyTorch function while a module is traced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from .contents.decisions import Decided, with_bounds
from .contents.known import Known
from .contents.selections import Chosen, selected
from .derivatives import inside_transform, transformed
from .gradients import detached, unrecorded, without_gradient
from .operators import GRAD_MODE, gradient_mode
from .randomness import DRAWING, drawn
from .rewriting.complex_numbers import replacement
from .rewriting.experts import grouped_product
from .rewriting.masks import Places, masked_scatter, places, set_item, stacked
from .rewriting.rewritten import REWRITTEN

REPLACED: dict[Callable[..., Any], Callable[..., Any]] = (
    REWRITTEN
    | {
        getattr(place, name): grouped_product
        for place, name in ((torch, "_grouped_mm"), (functional, "grouped_mm"))
        if hasattr(place, name)
    }
    | {torch.masked_scatter: masked_scatter, torch.Tensor.masked_scatter: masked_scatter}
)
"""What stands in for functions that cannot be exported."""


class Tracing(TorchFunctionMode):
    """Active inside the module's `forward`. A call within a call of PyTorch's own is not seen."""

    def __init__(self, root: nn.Module, known: Known, chosen: Chosen, decided: Decided) -> None:
        super().__init__()
        self._root, self._known, self._chosen, self._decided = root, known, chosen, decided

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if inside_transform():
            return transformed(function, args, kwargs)
        if function == GRAD_MODE:
            return gradient_mode(*args)
        is_known = self._known.covers(function, args, kwargs)
        if (answer := self._decided.answer(function, args, is_known)) is not None:
            return answer
        if is_known:
            return self._known.call(function, args, kwargs)
        if function in (torch.Tensor.__getitem__, torch.Tensor.__setitem__):
            args = (args[0], self._index(args[1]), *args[2:])
        if (selection := self._chosen.selection(function, args)) is not None:
            with self:
                return selected(*selection)
        if function in DRAWING:
            return drawn(function, args, kwargs, self._root)
        if (stand_in := replacement(function, args) or REPLACED.get(function)) is not None:
            with self:  # what stands in is watched as well
                return stand_in(*args, **kwargs)
        if function is torch.where and len(args) == 1 and not kwargs:
            return places(*args)
        if function is torch.Tensor.__setitem__:
            with self:
                if set_item(*args):
                    return None
        if (result := detached(function, args)) is not None:
            return result
        if function is Tensor.view:
            function, args = _restrided(args, kwargs)
            kwargs = {}
        if not torch.is_grad_enabled():
            return unrecorded(function, args, kwargs)
        return without_gradient(args, kwargs, function(*args, **kwargs))

    def _index(self, index: Any) -> Any:
        """An index without what PyTorch would read the contents of, as far as they are known or decided."""
        if isinstance(index, Places):
            return index
        with self:
            index = stacked(index)
        return with_bounds(self._known.places(index), self._bound)

    def _bound(self, bound: Tensor) -> Any:
        """Where a slice begins or ends, as a number where that is decided."""
        function, args = Tensor.__int__, (bound,)
        is_known = self._known.covers(function, args, {})
        answer = self._decided.answer(function, args, is_known)
        if is_known:
            return self._known.call(function, args, {})
        return bound if answer is None else answer


def _restrided(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A view, as `reshape` where the trace may not be able to take it. Attention's results have strides of their own
    from each kernel: what the module views has others while it is traced, and a call that fails would stay there."""
    args = (*args, *kwargs.values())
    if args[0].is_contiguous() or any(isinstance(x, torch.dtype) for x in args):
        return Tensor.view, args
    return Tensor.reshape, args
