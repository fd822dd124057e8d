"""Short trainings of many schemes by few compiled programs.

What decides a training's losses is what moves, not what is computed. So a program that trains more than a scheme does
stands for it: after each step, what the scheme keeps frozen is put back. Where an optimizer looks at more than one
number at a time that would not be the same, and each scheme is compiled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ...artifact import Artifact, Evaluation
from ...autodiff import GENERATOR
from ...errors import PockError
from ...ir import Array
from ...recipe import Recipe, running_statistics
from ...recipe.resolution.scheme import most_important
from ..space import Choice, Importance, Space
from .contributions import magnitude
from .samples import Samples
from .work import Data, Work

_PARTS = 4
"""Programs that stand for all schemes: each trains the last units of the model from another one on. A scheme is trained
by the shortest one that has all it trains, whose backward pass is the shortest."""
_NUMBER_BY_NUMBER = ("sgd", "adam", "adamw", "lion")


@dataclass(frozen=True)
class Trained:
    """How a short training went: the loss before each step, and the evaluation behind the last one."""

    losses: tuple[float, ...]
    evaluation: Evaluation


class Trainer:
    """Trains schemes of a space, each from the model's own contents. One session is open at a time: neighbours in
    `cost_order` share it. Close it, or use it in a `with`."""

    def __init__(self, space: Space, train: Data, evaluation: Data, importance: Importance, work: Work) -> None:
        self.space, self.importance, self.work = space, importance, work
        self.recipe = measured_recipe(space)
        self._data, self._evaluation = train, evaluation
        self._artifacts: dict[Choice, Artifact] = {}
        self._open: OpenProgram | None = None

    def program(self, choice: Choice) -> Choice:
        """What the program trains that stands for a scheme."""
        if not self._stands_for_others(choice):
            return choice
        full, first = self.space.full, next((i for i, index in enumerate(choice) if index), len(choice) - 1)
        start = max(place for place in self._starts() if place <= first)
        return tuple(full[i] if i >= start else 0 for i in range(len(full)))

    def train(self, choice: Choice, steps: int, seed: int) -> Trained:
        """Train a scheme for some steps and evaluate it. `seed` decides the order of samples and what dropout and
        augmentation draw. Raises DataError, RecipeError or UnsupportedOperatorError."""
        opened = self._opened(self.program(choice))
        opened.reset(seed)
        losses, trained = [], any(choice)
        restored = self._restored(opened.choice, choice)
        train = Samples(self._data, opened.artifact.manifest, "training samples")
        for batch in islice(train.batches(seed), steps if trained else 0):
            losses.append(opened.session.step(batch))
            opened.restore(restored)
        evaluation = Samples(self._evaluation, opened.artifact.manifest, "samples to evaluate on", whole=False)
        return Trained(tuple(losses), opened.session.evaluate(evaluation.all()))

    def close(self) -> None:
        """Frees memory and threads."""
        if self._open is not None:
            self._open.session.close()
            self._open = None

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _stands_for_others(self, choice: Choice) -> bool:
        """Whether one program trains many schemes. A scheme with adapters is compiled by itself."""
        adapted = any(unit.rank(index) for unit, index in zip(self.space.units, choice, strict=True))
        return trains_number_by_number(self.recipe) and not adapted

    def _starts(self) -> set[int]:
        """The units from which programs train: equal parts of the model, and the head."""
        count = len(self.space.units)
        return {*(part * count // _PARTS for part in range(_PARTS)), head_start(self.space)}

    def _opened(self, choice: Choice) -> OpenProgram:
        if self._open is None or self._open.choice != choice:
            self.close()
            if choice not in self._artifacts:
                recipe = Space(self.space.graph, self.recipe, self.space.units).recipe(choice, self.importance)
                artifact = self.work.compiled(self.space, recipe)
                if self._stands_for_others(choice):
                    self._artifacts[choice] = artifact
            else:
                artifact = self._artifacts[choice]
            self._open = OpenProgram(self.space, choice, artifact)
        return self._open

    def _restored(self, program: Choice, choice: Choice) -> dict[str, tuple[int, Array] | None]:
        """Units of which the program trains more than the scheme -> axis and trained channels; None: none of it."""
        found: dict[str, tuple[int, Array] | None] = {}
        for unit, more, index in zip(self.space.units, program, choice, strict=True):
            if more == index:
                continue
            found[unit.name] = None
            if index:
                assert unit.axis is not None
                order = self.importance.get(unit.name)
                order = magnitude(self.space, unit.name, unit.axis) if order is None else order
                found[unit.name] = unit.axis, np.array(most_important(order, unit.channels(index)))
        return found


class OpenProgram:
    """One program in memory."""

    def __init__(self, space: Space, choice: Choice, artifact: Artifact) -> None:
        self.choice, self.artifact, self.session = choice, artifact, artifact.load()
        changed = [name for unit, index in zip(space.units, choice, strict=True) for name in unit.trained(index)]
        if space.base.batch_norm == "train":
            changed += [value.name for value in running_statistics(space.graph)]
        self._contents = {name: self.session.tensor(name) for name in changed}
        self._states = self.session.optimizer_state()

    def reset(self, seed: int) -> None:
        """The model as it was, the optimizer as before its first step."""
        for name, array in {**self._contents, **self._states}.items():
            self.session.set_tensor(name, array)
        if GENERATOR in self._states:
            self.session.set_tensor(GENERATOR, np.array((seed % 2**32) << 32, np.uint64).view(np.int64))

    def restore(self, restored: Mapping[str, tuple[int, Array] | None]) -> None:
        """Undo what the last step did to units, but for their trained channels."""
        for name, channels in restored.items():
            contents = self._contents[name]
            if channels is not None:
                axis, indices = channels
                contents = contents.copy()
                place = (slice(None),) * axis + (indices,)
                contents[place] = self.session.tensor(name)[place]
            self.session.set_tensor(name, contents)


def measured_recipe(space: Space) -> Recipe:
    """What schemes are trained with: the base recipe, but evaluated without averages and with all weights as they
    are."""
    return space.base.with_(ema=None, frozen=None, trained=None, last_batch="drop")


def trains_number_by_number(recipe: Recipe) -> bool:
    """Whether each number moves by its own gradients alone, whatever else is trained."""
    optimizer = recipe.optimizer
    by_norm = optimizer.clip is not None and optimizer.clip.norm is not None
    return optimizer.name in _NUMBER_BY_NUMBER and not by_norm and optimizer.state == "f32"


def head_start(space: Space) -> int:
    """The place of the last weight, with which the head begins. Raises PockError where there is none."""
    weights = [place for place, unit in enumerate(space.units) if unit.is_weight]
    if not weights:
        raise PockError("the model has no weight to train, so contributions cannot be measured beside its head")
    return weights[-1]


def vectors(space: Space) -> Iterator[list[int]]:
    """The places of biases and of scales and shifts of norms before the head, by module, first one first."""
    found: dict[str, list[int]] = {}
    for place, unit in enumerate(space.units[: head_start(space)]):
        if not unit.is_weight:
            found.setdefault(unit.module, []).append(place)
    yield from found.values()
