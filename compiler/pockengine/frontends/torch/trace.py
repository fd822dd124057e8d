"""A run of a PyTorch module, function by function, beside the values of the graph that was made of it: which results
the graph has, and which not. The functions are matched by what they computed, so nothing is asked of the exporter."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree

from ...ir import Array, Value

_LIKE = 1e-3
"""How far two tensors of one meaning may be apart, relative to their scale: roundings are no difference."""
_HUGE = 1e30
"""Larger numbers stand for infinity in masks and say nothing of a tensor's scale."""


def relative_error(found: Array, expected: Array) -> float:
    """The largest difference of an element, relative to that element and the scale of all; infinite where shapes, NaNs
    or infinities differ. Of integers: the share that differs."""
    if found.shape != expected.shape:
        return float("inf")
    if not expected.size:
        return 0.0
    if expected.dtype.kind in "biu" or found.dtype.kind in "biu":
        return float(np.mean(found != expected))
    ours, theirs = found.astype(np.float64).reshape(-1), expected.astype(np.float64).reshape(-1)
    finite = np.isfinite(theirs)
    if not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True) or not np.isfinite(ours[finite]).all():
        return float("inf")
    ours, theirs = ours[finite], theirs[finite]
    apart, sizes = np.abs(ours - theirs), np.abs(theirs)
    ordinary = sizes[sizes < _HUGE]
    scale = float(np.sqrt(np.mean(ordinary**2))) if ordinary.size else 0.0
    return float(np.max(apart / np.maximum(sizes + scale, np.finfo(np.float64).tiny), initial=0.0))


@dataclass
class Call:
    """One call of a function of PyTorch.

    module  path of the module in whose `forward` it happens; empty for the outermost one
    line    file and line that call it
    reads   positions of the calls whose results it reads
    value   the graph's value that its (first) result equals; None where there is none
    known   whether the graph has the result; None where nothing is said of it, as it is no float"""

    function: str
    module: str
    line: str
    reads: tuple[int, ...] = ()
    value: Value | None = None
    known: bool | None = None

    def __str__(self) -> str:
        inside = f" in '{self.module}'" if self.module else ""
        return f"'{self.function}'{inside} ({self.line})"


Seen = Callable[[Call, Tensor], None]
"""Told of each call whose result the graph has, with that result."""


class Trace(TorchFunctionMode):
    """While it is active, each call of a function of PyTorch becomes a Call."""

    def __init__(self, module: nn.Module, values: Mapping[Value, Array], seen: Seen | None = None) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self._seen = seen
        self._names = {part: name for name, part in module.named_modules()}
        self._modules: list[str] = []
        self._maker: dict[int, int] = {}
        self._alive: list[Tensor] = []
        self._stack = contextlib.ExitStack()
        self._known: dict[int, list[tuple[Value, Array, float]]] = {}
        for value, array in values.items():
            if value.type.dtype.is_float and array.size:
                self._known.setdefault(array.size, []).append((value, array, _mass(array)))

    def __enter__(self) -> Trace:
        enter = hooks.register_module_forward_pre_hook(lambda part, args: self._modules.append(self._path(part)))
        leave = hooks.register_module_forward_hook(lambda part, args, result: self._left(), always_call=True)
        self._stack.callback(enter.remove)
        self._stack.callback(leave.remove)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._stack.close()

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", str(func))
        written = args[0] if name == "__setitem__" else result
        tensors = [leaf for leaf in _pytree.tree_leaves(written) if isinstance(leaf, Tensor)]
        if tensors and name != "__get__":
            self._record(name, tensors, _pytree.tree_leaves((args, kwargs)))
        return result

    def first_difference(self, outputs: Iterable[Tensor]) -> Call | None:
        """The first call that leads to one of `outputs`, whose result the graph lacks, and of whose readers one lacks
        its own: what the graph computes in another way and comes to the same in the end is no difference."""
        readers: list[list[int]] = [[] for _ in self.calls]
        for index, call in enumerate(self.calls):
            for read in call.reads:
                readers[read].append(index)
        last = {self._maker[id(tensor)] for tensor in outputs if id(tensor) in self._maker}
        wrong: set[int] = set()
        for index in reversed(range(len(self.calls))):
            known, is_last = self.calls[index].known, index in last
            if (is_last and not known) or (known is False and any(reader in wrong for reader in readers[index])):
                wrong.add(index)
        return self.calls[min(wrong)] if wrong else None

    def _path(self, part: nn.Module) -> str:
        name: str = self._names.get(part, type(part).__name__)
        return name

    def _left(self) -> None:
        self._modules.pop()

    def _record(self, name: str, results: list[Tensor], arguments: list[Any]) -> None:
        makers = (self._maker.get(id(leaf)) for leaf in arguments if isinstance(leaf, Tensor))
        reads = tuple(dict.fromkeys(index for index in makers if index is not None))
        call = Call(name, self._modules[-1] if self._modules else "", _caller(), reads)
        for tensor in results:
            self._maker[id(tensor)] = len(self.calls)
            self._alive.append(tensor)  # so that no other tensor gets its id
        self.calls.append(call)
        first = results[0]
        if not first.is_floating_point() or not first.numel():
            return
        call.value = self._find(first)
        call.known = call.value is not None
        if self._seen and call.value is not None:
            self._seen(call, first)

    def _find(self, tensor: Tensor) -> Value | None:
        """The first of the graph's values with these contents, one of this shape before one of another."""
        contents = tensor.detach().to(torch.float64).numpy()
        mass, shape = _mass(contents), tuple(contents.shape)
        candidates = self._known.get(contents.size, [])
        for value, array, total in sorted(candidates, key=lambda known: known[1].shape != shape):
            alike = abs(total - mass) <= _LIKE * max(total, mass) or not np.isfinite(mass)
            if alike and relative_error(array.reshape(-1), contents.reshape(-1)) <= _LIKE:
                return value
        return None


def _mass(array: Array) -> float:
    """A number by which most tensors can be told apart."""
    return float(np.abs(array.astype(np.float64)).sum())


def _caller() -> str:
    """File and line of the innermost frame that is neither PyTorch's nor ours."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("torch", __name__.split(".")[0]):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}, line {frame.f_lineno}" if frame else "PyTorch"
