"""Adapts a model to tasks under schemes: each scheme is compiled once, each run begins with the same weights."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

import pockengine as pock
from benchmarks.tasks.models import Model
from benchmarks.tasks.pretraining import pretrained, start_of
from benchmarks.tasks.rates import GRID
from benchmarks.tasks.task import Data, Split, Task, Tensors
from benchmarks.tasks.training import Plan, Trainer
from pockengine import Recipe
from pockengine.search import Space

from .costs import THREADS, Costs
from .methods import Method, Setting
from .store import Result, Store, digest_of

STEPS = 400
"""Training steps of a run, of 16 samples each."""
KEPT_FOR_RATES = 0.25
"""The share of the training samples that the learning rate is chosen by."""


@dataclass(frozen=True)
class Scheme:
    """A method under a limit: `share` of full's memory."""

    method: str
    share: float

    @property
    def name(self) -> str:
        """As in tables."""
        return self.method if self.share >= 1 else f"{self.method} at {self.share:.0%}"


class Bench:
    """One model with everything that runs of it share. `seeds`: each run is repeated with the first so many."""

    def __init__(self, model: Model, store: Store, seeds: int, steps: int = STEPS) -> None:
        self.model, self.store, self.seeds, self.steps = model, store, seeds, steps
        self.costs = Costs(model)
        self._trainer: tuple[str, Trainer] | None = None
        self._data = cache(self._drawn)

    @cached_property
    def space(self) -> Space:
        """All schemes there are."""
        return Space.of(self.model.graph(self.weights), self.model.recipe())

    @cached_property
    def weights(self) -> Tensors:
        """After pre-training."""
        return pretrained(self.model)

    @cached_property
    def _weights_digest(self) -> str:
        return digest_of(*(part for name, one in sorted(self.weights.items()) for part in (name, one.tobytes())))

    def _drawn(self, task: Task, seed: int) -> Data:
        data = task.data(seed)
        return Data(self.model.samples_of(data.train), self.model.samples_of(data.held_out))

    def run(self, scheme: Scheme, method: Method, tasks: tuple[Task, ...]) -> Iterator[Result]:
        """The results of a scheme on each task and seed, those that are there already included."""
        for task in tasks:
            setting = Setting(
                self.model, self.space, self.costs, scheme.share, task, self._data(task, 0).train,
                start_of(self.model, task, 0, self.weights),
            )  # fmt: skip
            recipe = method(setting)
            if recipe is None:
                continue
            cost = self.costs.of(recipe)
            about = {
                "method": scheme.method,
                "share": scheme.share,
                "memory": cost.memory_bytes / self.costs.full.memory_bytes,
                "time": cost.cycles / self.costs.full.cycles,
            }
            rate = self._rate(recipe, task)
            for seed in range(self.seeds):
                data = self._data(task, seed)
                yield self._result(recipe, task, data, Plan(self.steps, rate, seed), about)

    def _rate(self, recipe: Recipe, task: Task) -> int:
        """The learning rate that is best on a part of the first seed's training samples, after training on the rest;
        of equals the one with the lower loss."""
        train = self._data(task, 0).train
        kept = round(len(train) * KEPT_FOR_RATES)
        data = Data(train.at(slice(kept, None)), train.at(slice(0, kept)))
        found = [self._result(recipe, task, data, Plan(self.steps, rate), {}) for rate in GRID]
        best = max(found, key=lambda one: (one["accuracy"], -(one["loss"] or 0.0)))
        return int(best["rate"])

    def _result(self, recipe: Recipe, task: Task, data: Data, plan: Plan, about: Result) -> Result:
        """What is kept does not know the method: several may come to the same recipe."""
        key = digest_of(
            self._weights_digest, recipe.to_mapping(), [task.name, plan.steps, plan.rate, plan.seed],
            *(_bytes(split) for split in (data.train, data.held_out)),
        )  # fmt: skip
        known = self.store.get(key) or self.store.add(key, self._adapted(recipe, task, data, plan))
        return {**about, **known}

    def _adapted(self, recipe: Recipe, task: Task, data: Data, plan: Plan) -> Result:
        """One run. Where training diverges, nothing is right."""
        trainer, began = self._compiled(recipe), time.monotonic()
        trainer.begin(start_of(self.model, task, plan.seed, self.weights))
        loss = trainer.train(data.train, plan)
        diverged = not np.isfinite(loss)
        return {
            "model": self.model.key,
            "task": task.name,
            "seed": plan.seed,
            "rate": plan.rate,
            "accuracy": 0.0 if diverged else trainer.judge(data.held_out, task.metric),
            "loss": None if diverged else loss,
            "seconds": round(time.monotonic() - began, 3),
        }

    def _compiled(self, recipe: Recipe) -> Trainer:
        """The last one is kept: schemes that are equal for all tasks are run task by task."""
        key = json.dumps(recipe.to_mapping(), sort_keys=True)
        if self._trainer is None or self._trainer[0] != key:
            self.close()
            began = time.monotonic()
            artifact = pock.compile(self.space.graph, recipe, threads=THREADS)
            self._trainer = key, Trainer(artifact, THREADS)
            print(f"{self.model.key}: compiled in {time.monotonic() - began:.1f} s", file=sys.stderr)
        return self._trainer[1]

    def close(self) -> None:
        """Ends the session, if there is one."""
        if self._trainer is not None:
            self._trainer[1].session.close()
            self._trainer = None


def _bytes(split: Split) -> bytes:
    return b"".join(one.tobytes() for one in (*split.inputs.values(), split.labels))
