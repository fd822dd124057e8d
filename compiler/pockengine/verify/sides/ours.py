"""Our side of a comparison: the recipe's training step as machine code of this machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from ...compile import compile
from ...errors import RecipeError
from ...ir import Array, Graph
from ...progress import Progress, quiet
from ...recipe import SGD, Recipe, Scheme

OF_GRADIENTS = SGD(lr=1e-3, momentum=0.5, nesterov=True)
"""Whose momentum is, after the first step, the gradient itself; Nesterov's, in which micro-batches do not add up."""


def comparable(recipe: Recipe) -> tuple[Recipe, tuple[str, ...]]:
    """The recipe without what two programs cannot have in common, and a note on each thing left out. Raises RecipeError
    where nothing would be left to compare."""
    notes = []
    if recipe.frozen is not None:
        raise RecipeError(
            "a recipe with 'frozen' trains other weights than the framework has: verify it without 'frozen', "
            "which changes nothing about gradients"
        )
    if recipe.optimizer.state != "f32":
        raise RecipeError(
            "optimizer state in 8 bits is rounded at random, so no two programs agree: verify with 'state: f32'"
        )
    if recipe.trained is not None:
        notes.append("weights are trained in f32: in 16 bits, rounding would be most of what differs")
        recipe = recipe.with_(trained=None)
    if recipe.dropout:
        notes.append("dropout is left out: the two would drop different numbers")
        lora = dataclasses.replace(recipe.lora, dropout=0.0) if recipe.lora else None
        recipe = recipe.with_(dropout=False, lora=lora)
    if recipe.augment:
        notes.append("augmentation is left out: the two would draw different numbers")
        recipe = recipe.with_(augment=())
    if recipe.ema is not None:
        notes.append("averages of the weights are left out: what is averaged is compared")
        recipe = recipe.with_(ema=None)
    return recipe, tuple(notes)


@dataclasses.dataclass(frozen=True)
class OurTraining:
    """initial: all parameters before the first step. The rest as `Trained` has it."""

    initial: Mapping[str, Array]
    losses: tuple[float, ...]
    tensors: Mapping[str, Array]
    gradients: Mapping[str, Array]


def train(
    model: Graph,
    recipe: Recipe,
    scheme: Scheme,
    batches: Sequence[Mapping[str, Array]],
    threads: int | None = None,
    progress: Progress = quiet,
) -> OurTraining:
    """Compile and run a step for each batch; a second program, for the gradients of the first. Raises PockError where
    the model or the recipe cannot be compiled."""
    with compile(model, recipe, threads=threads, progress=progress).load() as session:
        initial = session.state()
        losses = tuple(session.step(feeds) for feeds in batches)
        tensors = session.state()
    with compile(model, recipe.with_(optimizer=OF_GRADIENTS), threads=threads, progress=progress).load() as session:
        session.step(batches[0])
        state = session.optimizer_state()
    gradients = {name: np.asarray(state[f"{name}.momentum"]) for name in scheme.trained()}
    return OurTraining(initial, losses, tensors, gradients)


def train_by_reference(model: Graph, recipe: Recipe, batches: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """All parameters after a step for each batch by the reference backend: the same passes and plan, other kernels.
    Raises PockError where it cannot train the model."""
    with compile(model, recipe, backend="reference").load() as session:
        for feeds in batches:
            session.step(feeds)
        return session.state()
