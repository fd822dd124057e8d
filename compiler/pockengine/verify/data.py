"""The batches that both sides train on: the user's, or random ones that the model can read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..autodiff.objective import SAMPLE_WEIGHT
from ..compile.ranges import IntegerRange, integer_ranges
from ..errors import DataError, nearest
from ..ir import Array, Graph, Value
from ..recipe import Recipe
from ..recipe.losses.kinds import BCEWithLogits

Feeds = dict[str, Array]


def random_batches(
    graph: Graph, recipe: Recipe, steps: int, seed: int, examples: Mapping[str, Array] | None = None
) -> list[Feeds]:
    """Batches for `steps` steps of the model with its losses: `graph`, whose inputs they are.

    examples  the user's own example inputs by name. The first batch has them as they are; later ones have other numbers
              of their mean and deviation, and their integers and booleans with the samples in another order, so that
              ids stay ids and masks masks

    Without an example, integers are below what they index, or 1; floats are normally distributed."""
    rng, ranges = np.random.default_rng(seed), integer_ranges(graph)
    drawn = _Drawn(graph, recipe, rng, ranges, dict(examples or {}))
    batches = []
    for step in range(steps):
        micro = [drawn.batch(step * recipe.accumulate + index) for index in range(recipe.accumulate)]
        batches.append({name: np.concatenate([feeds[name] for feeds in micro]) for name in micro[0]})
    return batches


class _Drawn:
    def __init__(
        self,
        graph: Graph,
        recipe: Recipe,
        rng: np.random.Generator,
        ranges: Mapping[str, IntegerRange],
        examples: Mapping[str, Array],
    ) -> None:
        self.graph, self.rng, self.ranges, self.examples = graph, rng, ranges, examples
        self.masks = {loss.mask for loss in recipe.loss if loss.mask}
        self.answers = {loss.target for loss in recipe.loss if isinstance(loss, BCEWithLogits)}

    def batch(self, index: int) -> Feeds:
        return {value.name: self._array(value, index) for value in self.graph.inputs}

    def _array(self, value: Value, index: int) -> Array:
        name, shape, kind = value.name, value.type.shape, value.type.dtype
        if name in self.examples:
            drawn = self._like(self.examples[name], index)
        elif name == SAMPLE_WEIGHT:
            drawn = self.rng.uniform(0.5, 1.5, shape)
        elif name in self.masks:
            drawn = self.rng.random(shape) < 0.8
            drawn[:1] = True
        elif name in self.answers:
            drawn = self.rng.random(shape) < 0.5
        elif kind.is_float:
            drawn = self.rng.standard_normal(shape)
        else:
            drawn = self.rng.integers(0, self.ranges[name].limit, shape) if name in self.ranges else np.ones(shape)
        return drawn.astype(kind.numpy)

    def _like(self, example: Array, index: int) -> Array:
        if not index:
            return example
        if example.dtype.kind in "biu":
            return np.roll(example, index, axis=0) if example.ndim else example
        finite = example[np.isfinite(example)].astype(np.float64)
        if not finite.size or not (deviation := float(finite.std())):
            return example
        drawn = self.rng.normal(float(finite.mean()), deviation, example.shape)
        return np.where(np.isfinite(example), drawn, example)


def batches_of_file(path: str | Path, graph: Graph, recipe: Recipe, steps: int) -> list[Feeds]:
    """The first samples of a dataset, which starts again where it ends. Raises DataError."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        tensors = load_file(path)
    except FileNotFoundError:
        raise DataError(f"there is no dataset '{path}'") from None
    except (SafetensorError, OSError) as error:
        raise DataError(f"'{path}' is not a dataset: {error}") from None
    for value in graph.inputs:
        if value.name == SAMPLE_WEIGHT and value.name not in tensors:
            tensors[value.name] = np.ones(len(next(iter(tensors.values()))), np.float32)
        if value.name not in tensors:
            raise DataError(f"the dataset '{path}' lacks '{value.name}'{nearest(value.name, tensors)}")
        found = tensors[value.name]
        if not len(found) or found.shape[1:] != value.type.shape[1:]:
            raise DataError(f"'{value.name}' in '{path}' is {list(found.shape)}, and the model takes {value.type}")
        if found.dtype.kind == "f" and not value.type.dtype.is_float:
            raise DataError(f"'{value.name}' in '{path}' is {found.dtype.name}, and the model takes {value.type}")
    batches = []
    for step in range(steps):
        feeds = {}
        for value in graph.inputs:
            samples = value.type.shape[0] * recipe.accumulate
            rows = np.arange(step * samples, (step + 1) * samples) % len(tensors[value.name])
            feeds[value.name] = tensors[value.name][rows].astype(value.type.dtype.numpy)
        batches.append(feeds)
    return batches
