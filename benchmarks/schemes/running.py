"""Adapts a model to tasks under schemes: each scheme is chosen and compiled once, each run begins with the same
weights."""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

import pockengine as pock
from benchmarks.tasks.models import BATCH, Model
from benchmarks.tasks.pretraining import pretrained, start_of
from benchmarks.tasks.rates import GRID
from benchmarks.tasks.task import Data, Split, Task, Tensors
from benchmarks.tasks.training import Plan, Trainer
from pockengine import Recipe
from pockengine.search import Space

from .costs import THREADS, Costs
from .methods import SEARCHED, method_of, rated_as
from .searching import Searching, search_digest
from .setting import Setting
from .store import Result, Store, digest_of

STEPS = 400
"""Training steps of a run, of 16 samples each."""
KEPT_FOR_RATES = 0.25
"""The share of the training samples that the learning rate is chosen by."""
FOLDS = (0, 1)
"""Which such shares a rate is chosen by."""


class OutOfTimeError(Exception):
    """There is no time for another run."""


@dataclass(frozen=True)
class Scheme:
    """A method under a limit: `share` of the memory that full takes beyond the head."""

    method: str
    share: float

    @property
    def name(self) -> str:
        """As in tables."""
        return self.method if self.share >= 1 else f"{self.method} at {self.share:.0%}"


@dataclass(frozen=True)
class Means:
    """What benches work with.

    store     of results
    folder    where estimates and contributions are kept; None: nowhere
    compiled  where compiled schemes are kept; None: nowhere
    deadline  of time.monotonic(), after which no run begins
    steps     of each run"""

    store: Store
    folder: Path | None = None
    compiled: Path | None = None
    deadline: float = float("inf")
    steps: int = STEPS


@dataclass(frozen=True)
class _Open:
    """A compiled recipe, and what of the head is compiled in."""

    text: str
    head: Tensors
    trainer: Trainer

    def serves(self, start: Tensors) -> bool:
        """Whether training may begin there."""
        return all(np.array_equal(value, start[name]) for name, value in self.head.items())


class Bench:
    """One model with everything that runs of it share."""

    def __init__(self, model: Model, means: Means) -> None:
        self.model, self.means, self.store = model, means, means.store
        self.costs = Costs(model, means.store)
        self._open: _Open | None = None
        self._data = lru_cache(3)(self._drawn)

    @cached_property
    def weights(self) -> Tensors:
        """After pre-training."""
        return pretrained(self.model)

    @cached_property
    def searching(self) -> Searching:
        """What searches share."""
        return Searching(self.model, self.costs, self.weights, self.means.folder)

    @cached_property
    def weights_digest(self) -> str:
        """Tells apart what pre-training ends with."""
        return digest_of(*(part for name, one in sorted(self.weights.items()) for part in (name, one.tobytes())))

    def _drawn(self, task: Task, seed: int) -> Data:
        data = task.data(seed)
        return Data(self.model.samples_of(data.train), self.model.samples_of(data.held_out))

    def run(self, scheme: Scheme, task: Task, seed: int) -> Result | None:
        """The result of a scheme on a task's samples of one seed, as it is kept for tables; None where nothing of its
        kind fits. Raises OutOfTimeError."""
        run = [self.model.key, task.name, scheme.method, scheme.share, seed, self.means.steps]
        key = digest_of("row", self.weights_digest, run)
        made_by = {"weights": self.weights_digest, "search": _version(scheme.method)}
        if (kept := self.store.kept(key)) is not None:
            return kept
        known = self.store.get(key)
        if known is not None and made_by.items() <= known.items():
            return known
        if (recipe := self.recipe(scheme, task)) is None:
            return None
        plan = Plan(self.means.steps, self._rate(scheme, task), seed)
        made = self._result(recipe, task, self._data(task, seed), plan)
        cost, full = self.costs.of(recipe), self.costs.full
        return self.store.add(
            key,
            {
                **{name: value for name, value in made.items() if name != "key"},
                "kind": "row",
                "model": self.model.key,
                "method": scheme.method,
                "share": scheme.share,
                "steps": self.means.steps,
                "memory": cost.memory_bytes / full.memory_bytes,
                "time": cost.cycles / full.cycles,
                **made_by,
            },
        )

    def recipe(self, scheme: Scheme, task: Task) -> Recipe | None:
        """What the scheme's method chooses; None where nothing fits."""
        version = _version(scheme.method)
        where = [scheme.method, scheme.share, task.name if version else "", version]
        key = digest_of("scheme", self.weights_digest, self.model.key, where)
        if (known := self.store.get(key)) is None:
            known = self.store.add(key, self._chosen(scheme, task))
        return None if known["recipe"] is None else Recipe.from_mapping(known["recipe"])

    def _chosen(self, scheme: Scheme, task: Task) -> Result:
        recipe, about = self._proposed(scheme, task)
        return {
            "kind": "scheme",
            "model": self.model.key,
            "task": task.name,
            "method": scheme.method,
            "share": scheme.share,
            "recipe": None if recipe is None else recipe.to_mapping(),
            **about,
        }

    def _proposed(self, scheme: Scheme, task: Task) -> tuple[Recipe | None, Result]:
        """What the method chooses, and what is known of how."""
        self._check_time()
        start = start_of(self.model, task, 0, self.weights)
        space = Space.of(self.model.graph(start), self.model.recipe())
        samples = self._data(task, 0).train
        setting = Setting(self.model, space, self.costs, scheme.share, task, samples, start, self.searching)
        proposal = method_of(scheme.method)(setting)
        return (None, {}) if proposal is None else (proposal.recipe, proposal.about)

    def _rate(self, scheme: Scheme, task: Task) -> int:
        """The number of the learning rate that is best on parts of the first seed's training samples, after training on
        the rest."""
        recipes = [self.recipe(Scheme(name, scheme.share), task) for name in rated_as(scheme.method)]
        rates = [self._rated(recipe, task)[1] for recipe in recipes if recipe is not None]
        if not rates:  # nothing random fits but this
            recipe = self.recipe(scheme, task)
            assert recipe is not None
            rates = [self._rated(recipe, task)[1]]
        return statistics.median_low(rates)

    def _rated(self, recipe: Recipe, task: Task) -> tuple[tuple[float, float], int]:
        """How good a scheme is, and the number of its rate: of all that are tried the one that is best on what it was
        not trained on; of equals the one with the lower loss. Each is tried without one part of the first seed's
        training samples, then without another: a rate that is chosen by so few samples alone is often the wrong one."""
        values = {number: self._without_folds(recipe, task, number) for number in GRID}
        best = max(GRID, key=lambda number: values[number])
        return values[best], best

    def _without_folds(self, recipe: Recipe, task: Task, rate: int) -> tuple[float, float]:
        """The sums of accuracy, and of the loss less than 0, of trainings without one part of the samples each, which
        it is judged by."""
        train = self._data(task, 0).train
        kept, places = round(len(train) * KEPT_FOR_RATES), np.arange(len(train))
        accuracy = loss = 0.0
        for fold in FOLDS:
            judged = (places // kept) == fold
            data = Data(train.at(places[~judged]), train.at(places[judged]))
            one = self._result(recipe, task, data, Plan(self.means.steps, rate))
            accuracy += one["accuracy"]
            loss += float("inf") if one["loss"] is None else one["loss"]
        return accuracy, -loss

    def _result(self, recipe: Recipe, task: Task, data: Data, plan: Plan) -> Result:
        """What is kept does not know the method: several may come to the same recipe."""
        recipe = _quickest(recipe)
        key = digest_of(
            self.weights_digest, recipe.to_mapping(), [task.name, plan.steps, plan.rate, plan.seed],
            *(_bytes(split) for split in (data.train, data.held_out)),
        )  # fmt: skip
        known = self.store.get(key)
        return known if known is not None else self.store.add(key, self._adapted(recipe, task, data, plan))

    def _adapted(self, recipe: Recipe, task: Task, data: Data, plan: Plan) -> Result:
        """One run. Where training diverges, nothing is right."""
        self._check_time()
        start = start_of(self.model, task, plan.seed, self.weights)
        trainer, began = self._compiled(recipe, start), time.monotonic()
        trainer.begin(start)
        loss = trainer.train(data.train, plan)
        diverged = not np.isfinite(loss)
        return {
            "kind": "run",
            "model": self.model.key,
            "task": task.name,
            "seed": plan.seed,
            "rate": plan.rate,
            "accuracy": 0.0 if diverged else trainer.judge(data.held_out, task.metric),
            "loss": None if diverged else loss,
            "seconds": round(time.monotonic() - began, 3),
        }

    def _check_time(self) -> None:
        if time.monotonic() > self.means.deadline:
            raise OutOfTimeError

    def _compiled(self, recipe: Recipe, start: Tensors) -> Trainer:
        """The last one stays open; all that were compiled are kept as files, where there is a folder. A scheme that
        leaves a head as it was drawn has it compiled in: it is compiled again for each such start."""
        text = json.dumps(recipe.to_mapping(), sort_keys=True)
        if self._open is None or self._open.text != text or not self._open.serves(start):
            self.close()
            artifact = self.artifact(recipe)
            head = {tensor.name for tensor in artifact.manifest.tensors if tensor.trained == "frozen"}
            head &= set(self.model.head)
            if any(not np.array_equal(start[name], self.weights[name]) for name in head):
                artifact = pock.compile(self.model.graph(start), recipe, threads=THREADS)
            self._open = _Open(text, {name: start[name] for name in head}, Trainer(artifact, THREADS))
        return self._open.trainer

    def artifact(self, recipe: Recipe) -> pock.Artifact:
        """Compiled for the weights after pre-training, or as it was before."""
        folder, text = self.means.compiled, json.dumps(recipe.to_mapping(), sort_keys=True)
        file = None if folder is None else folder / f"{digest_of(self.weights_digest, text)}.pock"
        if file is not None and file.exists():
            return pock.Artifact.open(file)
        graph = self.model.graph(self.weights, recipe.batch or BATCH)
        artifact = pock.compile(graph, recipe, threads=THREADS)
        held = {tensor.name for tensor in artifact.manifest.tensors}
        if missing := set(self.model.head) - held:
            raise ValueError(f"a new head cannot begin anew where it is kept in few bits: {', '.join(sorted(missing))}")
        if file is not None:
            artifact.save(file)
        return artifact

    def close(self) -> None:
        """Ends the session, if there is one."""
        if self._open is not None:
            self._open.trainer.session.close()
            self._open = None


def _quickest(recipe: Recipe) -> Recipe:
    """The same in steps of the quickest form, which give the same numbers but for rounding."""
    return recipe.with_(memory=None, batch=BATCH, accumulate=1)


def _version(method: str) -> str:
    """Of the search, for methods that search: these look at the task, the others only at the model."""
    return search_digest() if method in SEARCHED else ""


def _bytes(split: Split) -> bytes:
    return b"".join(one.tobytes() for one in (*split.inputs.values(), split.labels))
