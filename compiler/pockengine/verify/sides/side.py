"""What a framework has to give to be compared with. Whatever it is, its model is trained by `torch_training`: one
place has the losses, one the optimizers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ...autodiff.lora import Adapter
from ...ir import Array, Graph
from ...recipe import Recipe, Scheme

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Task:
    """What both sides train, and how.

    inputs    names of the graph's inputs that the model takes
    adapters  of `lora`, with the initial contents of their two tensors by name in `initial`
    initial   contents of the graph's parameters"""

    inputs: tuple[str, ...]
    recipe: Recipe
    scheme: Scheme
    adapters: tuple[Adapter, ...]
    initial: Mapping[str, Array]


class Trainable(Protocol):
    """A model while it is trained; whatever becomes of it, the user's own stays as it is."""

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """All of floating point, by the graph's names. Changed in place, the next outputs are those of the new ones."""

    def outputs(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """By the graph's names, with gradients to those of the tensors that ask for one: the framework's own. Raises
        ModelError where the framework cannot compute them."""


class Side(Protocol):
    """A user's model in the framework it was written in.

    name       of the model, for a person
    framework  its name"""

    @property
    def name(self) -> str: ...

    @property
    def framework(self) -> str: ...

    def trainable(self, task: Task, double: bool = False) -> Trainable:
        """A copy to be trained, in float32 or in float64. Raises ModelError where there can be none."""

    def parting(self, model: Graph, task: Task, feeds: Mapping[str, Array]) -> str | None:
        """Half a sentence on where the model and the graph `model` part, for one batch of inputs and targets."""
