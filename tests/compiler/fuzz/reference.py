"""What a case computes: the unoptimised graphs, as autodiff makes them, evaluated in f64; and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from pockengine import interp
from pockengine.autodiff import accumulate_graph, averaged, eval_graph, predict_graph, train_graph, with_adapters
from pockengine.ir import Array, Graph, Value
from pockengine.ops import prune
from pockengine.recipe import Recipe, resolve

from .cases import STEPS, Case

RELATIVE = 2e-4
"""Tolerance of each number, relative to the largest of its tensor."""
NOISE = 3e-7
SAMPLES = 3

Results = dict[str, Array]
"""Everything a run gives, by name: losses of each step, parameters and states after the last, outputs of eval and
predict."""


@dataclass(frozen=True)
class Graphs:
    """The programs of a case, without any pass."""

    model: Graph
    train: Graph
    eval: Graph
    predict: Graph
    accumulate: Graph | None

    @classmethod
    def of(cls, case: Case, recipe: Recipe) -> Graphs:
        model = case.model if recipe.lora is None else with_adapters(case.model, recipe.lora)
        scheme = resolve(recipe, model)
        model = prune(model)  # a batch norm that nothing reads learns no statistics
        train = train_graph(model, recipe, scheme)
        updated = {value.name for value in train.updates}
        learned = [value for value in model.params if value.name in updated]
        read = averaged(model, learned) if recipe.ema is not None else model
        accumulate = accumulate_graph(model, recipe, scheme) if recipe.accumulate > 1 else None
        return cls(model, train, eval_graph(read, recipe), predict_graph(read, recipe), accumulate)


def schedule(case: Case, accumulate: int, inputs: tuple[Value, ...]) -> list[tuple[str, dict[str, Array]]]:
    """The runs of a case: (program, batch)."""
    step = ["accumulate"] * (accumulate - 1) + ["train"]
    programs = step * STEPS + ["eval", "predict"]
    return [(program, case.batch(inputs, number)) for number, program in enumerate(programs)]


def evaluated(case: Case, recipe: Recipe, graphs: Graphs, change: Callable[[Array], Array]) -> Results:
    """The reference; `change` is applied to every float that goes in."""
    tensors = {name: change(array) for name, array in graphs.model.data.items()}
    for value, fill in graphs.train.states.items():
        tensors[value.name] = tensors[fill.name] if isinstance(fill, Value) else change(_full(value, fill))
    results: Results = {}
    with np.errstate(all="ignore"):
        for number, (program, arrays) in enumerate(schedule(case, recipe.accumulate, graphs.eval.inputs)):
            graph = getattr(graphs, program)
            given = {value.name: change(arrays[value.name]) for value in graph.inputs}
            found = interp.step(graph, given, tensors)
            results |= {f"{program} {number}: {name}": array for name, array in found.items()}
    return results | {f"after: {name}": array for name, array in tensors.items()}


def _full(value: Value, fill: float) -> Array:
    return np.full(value.type.shape, fill, value.type.dtype.numpy)


def widened(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def noisy(seed: int) -> Callable[[Array], Array]:
    """f32 with a relative error of a few roundings."""
    rng = np.random.default_rng(seed)

    def change(array: Array) -> Array:
        if array.dtype != np.float32:
            return array
        return (array * (1 + NOISE * rng.standard_normal(array.shape))).astype(np.float32)

    return change


@dataclass(frozen=True)
class Expected:
    """exact: the results in f64; spread: how far evaluations in f32 with noise lie from them."""

    exact: Results
    spread: Results

    @classmethod
    def of(cls, case: Case, recipe: Recipe) -> Expected:
        graphs = Graphs.of(case, recipe)
        exact = evaluated(case, recipe, graphs, widened)
        others = [evaluated(case, recipe, graphs, noisy(seed)) for seed in range(SAMPLES)]
        with np.errstate(all="ignore"):
            spread = {
                name: np.max([np.abs(np.asarray(one[name], np.float64) - array) for one in others], axis=0)
                for name, array in exact.items()
                if array.dtype.kind == "f"
            }
        return cls(exact, spread)

    def compare(self, found: Mapping[str, Array]) -> tuple[list[str], int, int]:
        """(differences, numbers compared, numbers that f32 cannot tell)."""
        differences, compared, unsure = [], 0, 0
        for name, array in found.items():
            exact = self.exact[name]
            if exact.shape != array.shape:
                differences.append(f"{name}: {array.shape} instead of {exact.shape}")
                continue
            if exact.dtype.kind != "f":
                sure = np.ones(exact.shape, bool)
                wrong = exact != array
            else:
                finite = np.isfinite(exact)
                bound = RELATIVE * max(1.0, float(np.max(np.abs(exact), initial=0.0, where=finite)))
                sure = finite & (self.spread[name] <= bound / 4)
                with np.errstate(all="ignore"):
                    wrong = sure & ~(np.abs(array.astype(np.float64) - exact) <= bound)
            compared += array.size
            unsure += int(array.size - np.count_nonzero(sure))
            if wrong.any():
                place = tuple(int(i) for i in np.argwhere(wrong)[0])
                count = np.count_nonzero(wrong)
                differences.append(
                    f"{name}{list(place)}: {array[place]} instead of {exact[place]} ({count} of {array.size})"
                )
        return differences, compared, unsure
