"""The PyTorch side of a comparison: the same module, data, loss, optimizer and update scheme, by PyTorch's own
autograd; in float32, and in float64 where a referee is needed. Imported only where PyTorch is."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import parametrize
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree

from ..autodiff.lora import Adapter
from ..errors import ModelError
from ..frontends.agreement import array
from ..frontends.pytorch import named_tensors
from ..ir import Array
from ..recipe import Channels, Lora, Recipe, Scheme, module_of
from .steps import Trained
from .torch_losses import objective
from .torch_optimizers import clip_gradients, optimizer_of, set_rates


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
    """What is trained, and how.

    inputs    names of the graph's inputs that the module takes
    adapters  of `lora`, with the initial contents of their two tensors by name in `initial`"""

    module: nn.Module
    call: Call
    inputs: tuple[str, ...]
    recipe: Recipe
    scheme: Scheme
    adapters: tuple[Adapter, ...]
    initial: Mapping[str, Array]

    def train(self, batches: Sequence[Mapping[str, Array]], double: bool = False) -> Trained:
        """One step for each batch of `batch * accumulate` samples, in float32 or in float64. The module given stays as
        it is. Raises ModelError where a copy of it cannot be made or run."""
        with in_double() if double else contextlib.nullcontext():
            training = _Training(self, double)
            losses = [training.step(feeds, done) for done, feeds in enumerate(batches)]
            return Trained(tuple(losses), training.tensors(), training.gradients)

    def prepared(self, double: bool = False) -> tuple[nn.Module, dict[str, Tensor]]:
        """A copy of the module as it is trained, with adapters, and its tensors by name."""
        try:
            module = copy.deepcopy(self.module)
        except Exception as error:
            raise ModelError(
                f"{type(self.module).__name__} cannot be copied, and training it in PyTorch would change it: "
                f"{str(error).splitlines()[0]}"
            ) from error
        module.eval()
        if self.recipe.batch_norm == "train":
            for part in module.modules():
                if isinstance(part, _BatchNorm):
                    part.train()
        module = module.double() if double else module
        tensors = {name: x for name, x in module.state_dict(keep_vars=True).items() if x.is_floating_point()}
        if self.recipe.lora is not None:
            tensors |= _adapted(module, self.recipe.lora, self.adapters, self.initial, double)
        for tensor in tensors.values():
            tensor.requires_grad_(False)
        for name in self.scheme.trained():
            if name not in tensors:
                raise ModelError(f"the graph trains '{name}', which {type(self.module).__name__} does not have")
            tensors[name].requires_grad_(True)
        return module, tensors

    def loss(self, module: nn.Module, feeds: Mapping[str, Tensor]) -> Tensor:
        outputs = self.call.run(module, {name: feeds[name] for name in self.inputs})
        return objective(self.recipe, outputs, feeds)


class _Training:
    """A copy of the module on its way. Where only channels are trained, the optimizer has a leaf of their slice."""

    def __init__(self, side: TorchSide, double: bool) -> None:
        self.side, self.double = side, double
        self.module, self.known = side.prepared(double)
        self.gradients: dict[str, Array] = {}
        self.leaves: dict[str, nn.Parameter] = {}
        for name in side.scheme.trained():
            tensor = self.known[name]
            whole = isinstance(tensor, nn.Parameter) and not isinstance(side.scheme.of(name), Channels)
            leaf = tensor if whole else nn.Parameter(self._slice(name, tensor.detach()).clone())
            assert isinstance(leaf, nn.Parameter)
            self.leaves[name] = leaf
        self.optimizer = optimizer_of(side.recipe.optimizer, self.leaves)

    def step(self, feeds: Mapping[str, Array], done: int) -> float:
        recipe, total = self.side.recipe, 0.0
        for name in self.leaves:
            self.known[name].grad = None
        for micro in _split(feeds, recipe.accumulate):
            try:
                loss = self.side.loss(self.module, tensors_of(micro, self.double)) / recipe.accumulate
                loss.backward()  # type: ignore[no-untyped-call]
            except (RuntimeError, TypeError, ValueError, IndexError) as error:
                format = "float64" if self.double else "PyTorch"
                name = type(self.side.module).__name__
                raise ModelError(f"{name} cannot be trained in {format}: {str(error).splitlines()[0]}") from error
            total += float(loss.detach())
        for name, leaf in self.leaves.items():
            gradient = self.known[name].grad
            leaf.grad = None if gradient is None else self._slice(name, gradient).clone()
        if not done:
            self.gradients = {name: array(_gradient(leaf)).copy() for name, leaf in self.leaves.items()}
        set_rates(self.optimizer, recipe.optimizer.schedule, done)
        clip_gradients(recipe.optimizer.clip, self.leaves.values())
        self.optimizer.step()
        self._write_back()
        return total

    def tensors(self) -> dict[str, Array]:
        """Copies of all floating-point tensors."""
        return {name: array(tensor).copy() for name, tensor in self.known.items()}

    def _slice(self, name: str, tensor: Tensor) -> Tensor:
        what = self.side.scheme.of(name)
        if not isinstance(what, Channels):
            return tensor
        return tensor.index_select(what.axis, torch.tensor(what.indices))

    def _write_back(self) -> None:
        with torch.no_grad():
            for name, leaf in self.leaves.items():
                tensor, what = self.known[name], self.side.scheme.of(name)
                if isinstance(what, Channels):
                    tensor.index_copy_(what.axis, torch.tensor(what.indices), leaf)
                elif tensor is not leaf:
                    tensor.copy_(leaf)


def _gradient(leaf: nn.Parameter) -> Tensor:
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad


def tensors_of(feeds: Mapping[str, Array], double: bool = False) -> dict[str, Tensor]:
    """A batch as tensors."""
    tensors = {name: torch.tensor(x) for name, x in feeds.items()}
    return {name: x.double() if double and x.is_floating_point() else x for name, x in tensors.items()}


def _split(feeds: Mapping[str, Array], count: int) -> Iterator[dict[str, Array]]:
    """The micro-batches of a step."""
    for index in range(count):
        yield {name: x[len(x) // count * index :][: len(x) // count] for name, x in feeds.items()}


class _Adapted(nn.Module):
    """W + scale * B A: what PEFT's layers compute, with the product made first."""

    def __init__(self, adapter: Adapter, a: Tensor, b: Tensor, scale: float) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(a), nn.Parameter(b)
        self._transposed, self._scale = adapter.transposed, scale

    def forward(self, weight: Tensor) -> Tensor:
        rank = self.a.shape[0]
        change = self.b.reshape(-1, rank) @ self.a.reshape(rank, -1) * self._scale
        return weight + (change.T if self._transposed else change).reshape(weight.shape)


def _adapted(
    module: nn.Module, lora: Lora, adapters: Sequence[Adapter], initial: Mapping[str, Array], double: bool
) -> dict[str, Tensor]:
    """Add the adapters to the module; their tensors by name."""
    found: dict[str, Tensor] = {}
    for adapter in adapters:
        a, b = (tensors_of({name: initial[name]}, double)[name] for name in adapter.names)
        owner, _, attribute = adapter.weight.name.rpartition(".")
        added = _Adapted(adapter, a, b, lora.scale)
        parametrize.register_parametrization(module.get_submodule(owner), attribute, added, unsafe=True)
        found |= dict(zip(adapter.names, (added.a, added.b), strict=True))
    return found


class _InDouble(TorchFunctionMode):
    """Whatever asks for float32 gets float64: modules that compute their norms in float32 whatever they are in."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.float:
            return args[0].double()
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


__all__ = ["Call", "TorchSide", "in_double", "module_of", "tensors_of"]
