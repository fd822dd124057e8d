"""The other side of a comparison while it is trained: the recipe's loss and its optimizer as PyTorch has them, on the
outputs and gradients of whichever framework the model is of. Imported only where PyTorch is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from ...autodiff.lora import Adapter
from ...errors import ModelError
from ...frontends.torch.agreement import array
from ...ir import Array
from ...recipe import Channels
from .side import Side, Task, Trainable
from .steps import Trained
from .torch_double import in_double
from .torch_losses import has_own_teacher, objective
from .torch_optimizers import clip_gradients, optimizer_of, set_rates


def train(side: Side, task: Task, batches: Sequence[Mapping[str, Array]], double: bool = False) -> Trained:
    """One step for each batch of `batch * accumulate` samples, in float32 or in float64. The user's model stays as it
    is. Raises ModelError where a copy of it cannot be made or run."""
    with in_double() if double else contextlib.nullcontext():
        training = _Training(side, task, double)
        losses = [training.step(feeds, done) for done, feeds in enumerate(batches)]
        return Trained(tuple(losses), training.tensors(), training.gradients)


def loss_of(trainable: Trainable, task: Task, feeds: Mapping[str, Tensor], teacher: Trainable | None = None) -> Tensor:
    """The recipe's objective of one batch: a scalar. `teacher`: the model before it was trained; None: as it is now."""
    inputs = {name: feeds[name] for name in task.inputs}
    before = None if teacher is None else teacher.outputs(inputs)
    return objective(task.recipe, trainable.outputs(inputs), feeds, before)


class _Training:
    """A model on its way. Where only channels are trained, the optimizer has a leaf of their slice."""

    def __init__(self, side: Side, task: Task, double: bool) -> None:
        self.side, self.task, self.double = side, task, double
        self.trainable = side.trainable(task, double)
        as_inferred = replace(task, recipe=task.recipe.with_(batch_norm="frozen"))
        self.teacher = side.trainable(as_inferred, double) if has_own_teacher(task.recipe) else None
        self.known = self.trainable.tensors
        self.gradients: dict[str, Array] = {}
        self.leaves: dict[str, nn.Parameter] = {}
        for name in task.scheme.trained():
            tensor = self.known[name]
            whole = isinstance(tensor, nn.Parameter) and not isinstance(task.scheme.of(name), Channels)
            leaf = tensor if whole else nn.Parameter(self._slice(name, tensor.detach()).clone())
            assert isinstance(leaf, nn.Parameter)
            self.leaves[name] = leaf
        self.optimizer = optimizer_of(task.recipe.optimizer, self.leaves)

    def step(self, feeds: Mapping[str, Array], done: int) -> float:
        recipe, total = self.task.recipe, 0.0
        for name in self.leaves:
            self.known[name].grad = None
        for micro in _split(feeds, recipe.accumulate):
            try:
                loss = loss_of(self.trainable, self.task, tensors_of(micro, self.double), self.teacher)
                loss = loss / recipe.accumulate
                loss.backward()
            except (RuntimeError, TypeError, ValueError, IndexError) as error:
                format = "float64" if self.double else self.side.framework
                reason = str(error).splitlines()[0]
                raise ModelError(f"{self.side.name} cannot be trained in {format}: {reason}") from error
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
        what = self.task.scheme.of(name)
        if not isinstance(what, Channels):
            return tensor
        return tensor.index_select(what.axis, torch.tensor(what.indices))

    def _write_back(self) -> None:
        with torch.no_grad():
            for name, leaf in self.leaves.items():
                tensor, what = self.known[name], self.task.scheme.of(name)
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


def adapted(weight: Tensor, a: Tensor, b: Tensor, adapter: Adapter) -> Tensor:
    """W + scale * B A: what PEFT's layers compute, with the product made first."""
    rank = a.shape[0]
    change = b.reshape(-1, rank) @ a.reshape(rank, -1) * adapter.scale
    return weight + (change.T if adapter.transposed else change).reshape(weight.shape)


def _split(feeds: Mapping[str, Array], count: int) -> Iterator[dict[str, Array]]:
    """The micro-batches of a step."""
    for index in range(count):
        yield {name: x[len(x) // count * index :][: len(x) // count] for name, x in feeds.items()}
