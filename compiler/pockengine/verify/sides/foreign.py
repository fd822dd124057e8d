"""A model of another framework than PyTorch as the other side of a comparison. The framework computes the outputs and
the vector-Jacobian product, so gradients are its own; PyTorch makes the loss of the outputs, its gradient there, and
the optimizer's step (`torch_training`). Imported only where PyTorch is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from ...errors import ModelError
from ...frontends.exported import first_line
from ...frontends.torch.agreement import array
from ...ir import Array, Graph
from .side import Task
from .torch_training import adapted, tensors_of

Pullback = Callable[[Mapping[str, Array]], Mapping[str, Array]]
"""Gradients of a scalar at the outputs -> those at the weights, by name."""


class Differentiated(Protocol):
    """A model as a function of its weights, in float32 or in float64.

    weights  contents by the graph's names, of floating point"""

    @property
    def weights(self) -> Mapping[str, Array]: ...

    def run(self, weights: Mapping[str, Array], inputs: Mapping[str, Array]) -> tuple[dict[str, Array], Pullback]:
        """The outputs by the graph's names, and what takes gradients back. May raise anything."""


@dataclass(frozen=True)
class ForeignSide:
    """A model of `framework`.

    differentiated  makes the model in float32, or (given True) in float64; raises ModelError where it cannot"""

    name: str
    framework: str
    differentiated: Callable[[bool], Differentiated]

    def trainable(self, task: Task, double: bool = False) -> ForeignTrainable:
        """The model's function, and tensors of PyTorch that hold its weights and adapters."""
        function = self.differentiated(double)
        adapters = {name: task.initial[name] for adapter in task.adapters for name in adapter.names}
        known = {name: function.weights[name] for name in task.initial if name in function.weights}
        tensors: dict[str, Tensor] = {
            name: nn.Parameter(tensor, requires_grad=False)
            for name, tensor in tensors_of({**known, **adapters}, double).items()
        }
        for name in task.scheme.trained():
            if name not in tensors:
                raise ModelError(f"the graph trains '{name}', which {self.name} does not have")
            tensors[name].requires_grad_(True)
        return ForeignTrainable(self, function, task, tensors)

    def parting(self, model: Graph, task: Task, feeds: Mapping[str, Array]) -> str | None:
        """Named by an output or a parameter: what the framework calls within is not seen."""
        from ..locate import what_differs

        return what_differs(model, self, task, feeds)


@dataclass(frozen=True)
class ForeignTrainable:
    """The model's function, and its tensors."""

    side: ForeignSide
    function: Differentiated
    task: Task
    tensors: Mapping[str, Tensor]

    def outputs(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        weights = {name: tensor for name, tensor in self.tensors.items() if name in self.function.weights}
        for adapter in self.task.adapters:
            a, b = (self.tensors[name] for name in adapter.names)
            held = weights[adapter.weight.name]
            weights[adapter.weight.name] = adapted(held, a, b, adapter)
        names: list[str] = []
        results = _Applied.apply(self, tuple(weights), inputs, names, *weights.values())  # type: ignore[no-untyped-call]
        return dict(zip(names, results, strict=True))

    def run(self, weights: Mapping[str, Array], inputs: Mapping[str, Array]) -> tuple[dict[str, Array], Pullback]:
        """The function, with one kind of error."""
        outputs, pull = self._tried(lambda: self.function.run(weights, inputs))
        return outputs, lambda slopes: self._tried(lambda: pull(slopes))

    def _tried(self, compute: Callable[[], Any]) -> Any:
        try:
            return compute()
        except Exception as error:  # a framework's, of no common class
            where = f"{self.side.name} cannot be trained in {self.side.framework}"
            raise ModelError(f"{where}: {first_line(error)}") from error


class _Applied(torch.autograd.Function):
    """A foreign function in PyTorch's graph. `names` is filled with those of the outputs."""

    @staticmethod
    def forward(
        ctx: Any, model: ForeignTrainable, given: tuple[str, ...], inputs: Any, names: list[str], *weights: Tensor
    ) -> tuple[Tensor, ...]:
        arrays = {name: array(weight) for name, weight in zip(given, weights, strict=True)}
        outputs, ctx.pull = model.run(arrays, {name: array(x) for name, x in inputs.items()})
        names[:] = outputs
        results = tuple(torch.tensor(np.array(x)) for x in outputs.values())
        ctx.given, ctx.names = given, tuple(names)
        ctx.mark_non_differentiable(*(x for x in results if not x.is_floating_point()))
        return results

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Any, ...]:
        found = ctx.pull({name: array(slope) for name, slope in zip(ctx.names, slopes, strict=True)})
        return None, None, None, None, *(torch.tensor(np.array(found[name])) for name in ctx.given)


def plain(x: Any) -> Array:
    """A framework's array as numpy knows it: narrow floats, which numpy does not know, as float32."""
    found = np.asarray(x)
    narrow = found.dtype.kind == "V" or found.dtype.name in ("bfloat16", "float16")
    return found.astype(np.float32) if narrow else found
