"""A PyTorch module as the other side of a comparison: a copy of it, by PyTorch's own autograd. Imported only where
PyTorch is."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import parametrize
from torch.utils import _pytree

from ...autodiff.lora import Adapter
from ...errors import ModelError
from ...frontends.torch.importer import named_tensors
from ...ir import Array, Graph
from ..locate import where_they_part
from .side import Task
from .torch_training import adapted, tensors_of


@dataclass(frozen=True)
class Call:
    """How a module is called: example arguments, and which of their leaves each input of the graph is. Without examples
    (`places` None) the inputs are keyword arguments."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] | None = None
    places: Mapping[str, int] | None = None

    @classmethod
    def of(cls, inputs: Mapping[str, Tensor], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
        """`inputs`: the example's tensors by the graph's names, the very objects."""
        leaves = _pytree.tree_leaves((tuple(args), dict(kwargs)))
        places = {name: next(i for i, leaf in enumerate(leaves) if leaf is x) for name, x in inputs.items()}
        return cls(tuple(args), dict(kwargs), places)

    def run(self, module: nn.Module, feeds: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The module's outputs, by the names that the compiler gives them."""
        if self.places is None:
            return dict(named_tensors(module(**feeds)))
        leaves, spec = _pytree.tree_flatten((self.args, dict(self.kwargs or {})))
        for name, place in self.places.items():
            leaves[place] = feeds[name]
        args, kwargs = _pytree.tree_unflatten(leaves, spec)
        return dict(named_tensors(module(*args, **kwargs)))


@dataclass(frozen=True)
class TorchSide:
    """A module, and how it is called."""

    module: nn.Module
    call: Call
    framework: str = "PyTorch"

    @property
    def name(self) -> str:
        return type(self.module).__name__

    def trainable(self, task: Task, double: bool = False) -> TorchTrainable:
        """A copy of the module in evaluation mode, with adapters."""
        try:
            module = copy.deepcopy(self.module)
        except Exception as error:
            raise ModelError(
                f"{self.name} cannot be copied, and training it in PyTorch would change it: "
                f"{str(error).splitlines()[0]}"
            ) from error
        module.eval()
        if task.recipe.batch_norm == "train":
            for part in module.modules():
                if isinstance(part, _BatchNorm):
                    part.train()
        module = module.double() if double else module
        tensors = {name: x for name, x in module.state_dict(keep_vars=True).items() if x.is_floating_point()}
        tensors |= _adapters_into(module, task, double)
        for tensor in tensors.values():
            tensor.requires_grad_(False)
        for name in task.scheme.trained():
            if name not in tensors:
                raise ModelError(f"the graph trains '{name}', which {self.name} does not have")
            tensors[name].requires_grad_(True)
        return TorchTrainable(module, self.call, tensors)

    def parting(self, model: Graph, task: Task, feeds: Mapping[str, Array]) -> str | None:
        """Named by the call of a PyTorch function."""
        copied = self.trainable(task)
        return where_they_part(model, copied.module, copied, task, feeds)


@dataclass(frozen=True)
class TorchTrainable:
    """A copy of the module, and its tensors."""

    module: nn.Module
    call: Call
    tensors: Mapping[str, Tensor]

    def outputs(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return self.call.run(self.module, inputs)


class _Adapted(nn.Module):
    """A weight's parametrisation."""

    def __init__(self, adapter: Adapter, a: Tensor, b: Tensor) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(a), nn.Parameter(b)
        self._adapter = adapter

    def forward(self, weight: Tensor) -> Tensor:
        return adapted(weight, self.a, self.b, self._adapter)


def _adapters_into(module: nn.Module, task: Task, double: bool) -> dict[str, Tensor]:
    """Add the adapters to the module; their tensors by name."""
    found: dict[str, Tensor] = {}
    for adapter in task.adapters:
        a, b = (tensors_of({name: task.initial[name]}, double)[name] for name in adapter.names)
        owner, _, attribute = adapter.weight.name.rpartition(".")
        added = _Adapted(adapter, a, b)
        parametrize.register_parametrization(module.get_submodule(owner), attribute, added, unsafe=True)
        found |= dict(zip(adapter.names, (added.a, added.b), strict=True))
    return found
