"""The project's search on the transfer tasks: what training each parameter brings, in several ways, and the scheme that
is chosen from it under a limit of memory."""

from __future__ import annotations

import fcntl
import hashlib
import inspect
import math
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks.tasks.models import Model
from benchmarks.tasks.pretraining import start_of
from benchmarks.tasks.task import Array, Task, Tensors
from pockengine.codegen.files import write_whole
from pockengine.errors import MemoryBudgetError
from pockengine.recipe import resolve
from pockengine.search import Choice, ExactCosts, Importance, Space
from pockengine.search import Costs as Estimates
from pockengine.search.choosing import Chooser, Limits, Plans, gain_of
from pockengine.search.contributions import (
    Contributions,
    Data,
    Training,
    Work,
    fisher,
    gradient_ratio,
    load,
    measure,
    save,
)
from pockengine.search.contributions.earlier import earlier_first
from pockengine.search.job.comparison import schemes_of
from pockengine.search.micro_batches import MicroBatches
from pockengine.targets import get

from .costs import TARGET, THREADS, Costs
from .store import digest_of


@dataclass(frozen=True)
class Forms:
    """Which forms a step may have to keep to the memory, beside the quickest."""

    recompute: bool = False
    micro_batches: bool = False


QUICKEST = Forms()

CLOCK = 1e9
"""Cycles a second. Steps are only compared with each other; this machine's own clock changes while it runs."""
RANKS = (2, 8)
"""Of adapters, where a search may choose them."""

Made = TypeVar("Made")
Way = Callable[[Space, Data, Work], Contributions]
"""How contributions are found."""


def _root(space: Space, data: Data, work: Work) -> Contributions:
    """Square roots of the search's own gains: large ones count for less."""
    found = fisher(space, data, work=work)
    gains = tuple(tuple(float(np.sqrt(gain)) for gain in row) for row in found.gains)
    return replace(found, gains=gains, method="root")


def _even(space: Space, data: Data, work: Work) -> Contributions:
    """Without looking at data: each parameter counts the same; the head comes first."""
    head = set(resolve(space.base.with_(update="head", lora=None), space.graph).trained())
    rows = []
    for unit in space.units:
        value = float(len(space.units)) if unit.name in head else 1.0
        rows.append(tuple(share * value for share in unit.shares))
    return Contributions(space, tuple(rows), "even", 0.0)


def _earlier(space: Space, data: Data, work: Work) -> Contributions:
    return Contributions(space, earlier_first(space), "earlier", 0.0)


_JUDGED = 0.25
"""The share of the samples that `measured` judges trainings by, which they do not see."""
_SLOWER = math.sqrt(0.1)
"""Its learning rate against the highest that is tried."""


def _measured(space: Space, data: Data, work: Work, metric: str = "accuracy") -> Contributions:
    """What short trainings of single parameters gain on a part of the samples, with one order of the others."""
    count = len(next(iter(data.values())))
    judged = {name: array[: round(count * _JUDGED)] for name, array in data.items()}
    trained = {name: array[round(count * _JUDGED) :] for name, array in data.items()}
    optimizer = replace(space.base.optimizer, lr=space.base.optimizer.lr * _SLOWER)
    slower = Space(space.graph, space.base.with_(optimizer=optimizer), space.units)
    return replace(measure(slower, trained, judged, Training(seeds=1, metric=metric), work=work), space=space)


WAYS: Mapping[str, Way] = {
    "default": lambda space, data, work: fisher(space, data, work=work),
    "activations": lambda space, data, work: fisher(space, data, criterion="activations", work=work),
    "signal": lambda space, data, work: fisher(space, data, criterion="signal", work=work),
    "channels": lambda space, data, work: fisher(space, data, channels="fisher", work=work),
    "ratio": lambda space, data, work: gradient_ratio(space, data, work=work),
    "root": _root,
    "even": _even,
    "earlier": _earlier,
    "measured": _measured,
    "measured-loss": partial(_measured, metric="loss"),
}
"""`default` is what `pock search --channels magnitude` does."""


@dataclass(frozen=True)
class Picked:
    """A choice, and how it was come to.

    gain     of the choice, if gains add
    bound    no choice within the limit gains more; the gain itself where that is not known
    micro_batches  that a step takes its samples in to fit"""

    choice: Choice
    importance: Importance
    gain: float
    bound: float
    micro_batches: int = 1


@cache
def search_digest() -> str:
    """Of the search's source, and of how it is asked here: what an earlier version found is found again."""
    folder = Path(inspect.getfile(Space)).parent
    found = hashlib.sha256()
    for file in (*sorted(folder.rglob("*.py")), Path(__file__)):
        found.update(file.read_bytes())
    return found.hexdigest()[:12]


class Searching:
    """What the searches of one model share: estimates of costs, and contributions task by task.

    folder  where both are kept, for other processes and for the next time; None: nowhere
    ranks   of adapters that may be chosen, too"""

    def __init__(
        self, model: Model, costs: Costs, weights: Tensors, folder: Path | None = None, ranks: tuple[int, ...] = ()
    ) -> None:
        self.model, self.costs, self.weights, self.folder, self.ranks = model, costs, weights, folder, ranks
        self._contributions = cache(self._found)

    @cached_property
    def with_adapters(self) -> Searching:
        """The same where weights may have adapters."""
        return Searching(self.model, self.costs, self.weights, self.folder, RANKS)

    @cached_property
    def space(self) -> Space:
        """All schemes there are, of the weights after pre-training."""
        return Space.of(self.model.graph(self.weights), self.model.recipe(), self.ranks)

    @cached_property
    def estimates(self) -> Estimates:
        """Takes a minute; then quick."""
        return self._estimates(self.space)

    @cached_property
    def finest_estimates(self) -> Estimates:
        """The same of steps that take their samples one by one."""
        return self._estimates(self.micro_batches.space(self.micro_batches.counts[-1]))

    def _estimates(self, space: Space) -> Estimates:
        def read(file: Path) -> Estimates:
            found = pickle.loads(file.read_bytes())
            assert isinstance(found, Estimates)
            return found

        def write(found: Estimates, file: Path) -> None:
            write_whole(file, [pickle.dumps(found)])

        units = [[unit.name, unit.shape] for unit in space.units]
        key = digest_of(self.model.key, self.ranks, units, space.base.accumulate)
        return self._kept(f"estimates-{key}.pickle", lambda: estimated(space), read, write)

    def contributions(self, task: Task, way: str) -> Contributions:
        """From the samples of the task's first seed."""
        return self._contributions(task, way)

    def _found(self, task: Task, way: str) -> Contributions:
        start = start_of(self.model, task, 0, self.weights)
        space = Space.of(self.model.graph(start), self.model.recipe(), self.ranks)
        samples = self.model.samples_of(task.data(0).train)
        weights = b"".join(start[name].tobytes() for name in sorted(start))
        name = f"{way}-{digest_of(self.model.key, task.name, self.ranks, weights)}.json"
        work = Work(folder=self.folder, threads=THREADS)

        def make() -> Contributions:
            return WAYS[way](space, samples.batch(np.arange(len(samples))), work)

        return self._kept(name, make, lambda file: load(file, space), save)

    def averaged(self, task: Task, way: str) -> Contributions:
        """From the model's other tasks: the mean of what every other one says, of which this one is not. Each counts
        the same, by the total of what it says of the parameters before the head."""
        tasks = self.model.tasks
        others = [one for place, one in enumerate(tasks) if place % 2 != tasks.index(task) % 2]
        found = [self.contributions(one, way) for one in others]
        head = set(resolve(self.model.recipe("head"), self.space.graph).trained())
        totals = [_total(one, head) for one in found]
        rows = [
            tuple(
                float(np.mean([gain / total for gain, total in zip(gains, totals, strict=True)])) for gains in options
            )
            for options in (zip(*unit, strict=True) for unit in zip(*(one.gains for one in found), strict=True))
        ]
        return replace(found[0], space=self.space, gains=tuple(rows), importance=_mean_importance(found))

    def pick(
        self, contributions: Contributions, limit: int, step_share: float | None = None, forms: Forms = QUICKEST
    ) -> Picked | None:
        """The best choice within so many bytes, and within a share of full's step time, where one is given, or what a
        person would write, if it is better, as `pock search` does; steps may have these forms to fit. None where there
        is none."""
        chooser = self._chooser(contributions, forms)
        limits = self._limits(limit, step_share)
        try:
            chooser.check(limits)
            chosen = chooser.choose(limits, list(schemes_of(self.space, chooser, limits).values()))
        except MemoryBudgetError:
            return None
        return Picked(chosen.choice, contributions.importance, chosen.gain, chosen.bound, chosen.micro_batches)

    def evolved(self, contributions: Contributions, limit: int) -> Picked | None:
        """What the published search comes to with the same contributions, costs and limit."""
        if (choice := self._chooser(contributions).evolved(self._limits(limit, None))) is None:
            return None
        gain = gain_of(contributions.weighed, choice)
        return Picked(choice, contributions.importance, gain, gain)

    def _chooser(self, contributions: Contributions, forms: Forms = QUICKEST) -> Chooser:
        plans = Plans(self.planned, forms.recompute, self.micro_batches if forms.micro_batches else None)
        chooser = Chooser(self.space, contributions.weighed, self.estimates, plans)
        if (finest := plans.finest) is not None:
            chooser.finest = cache(
                lambda: Chooser(finest.exact(1).space, contributions.weighed, self.finest_estimates, finest)
            )
        return chooser

    @cached_property
    def micro_batches(self) -> MicroBatches:
        """Steps that take their samples in parts; in all tasks each sample has as many answers."""
        samples = self.model.samples_of(self.model.tasks[0].data(0).train)
        everything = samples.batch(np.arange(len(samples)))
        return MicroBatches.of(self.space, lambda batch: self.model.graph(self.weights, batch), everything)

    @cached_property
    def planned(self) -> ExactCosts:
        """What planning says: what one search asked for, another one has at once."""
        return ExactCosts(self.space, get(TARGET), THREADS, CLOCK)

    def _limits(self, limit: int, step_share: float | None) -> Limits:
        whole = limit + self.costs.program_bytes
        if step_share is None:
            return Limits(whole)
        return Limits(whole, step_share * self.planned.of(self.space.full).step_ms)

    def _kept(
        self, name: str, make: Callable[[], Made], read: Callable[[Path], Made], write: Callable[[Made, Path], None]
    ) -> Made:
        """From the folder, or made and kept there; processes that want the same wait for the one that makes it."""
        if self.folder is None:
            return make()
        folder = self.folder / search_digest()
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / name
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not file.exists():
                write(made := make(), file)
                return made
        return read(file)


def estimated(space: Space) -> Estimates:
    """Of one space."""
    return Estimates(space, get(TARGET), THREADS, CLOCK)


def _total(contributions: Contributions, head: set[str]) -> float:
    units = contributions.space.units
    gains = zip(units, contributions.gains, strict=True)
    return sum(max(row) for unit, row in gains if unit.name not in head) or 1.0


def _mean_importance(found: list[Contributions]) -> Importance:
    """Of each weight that all of them have it of; each counts the same."""
    names = set.intersection(*(set(one.importance) for one in found))
    means: dict[str, Array] = {}
    for name in names:
        values: list[Any] = [one.importance[name] / (np.abs(one.importance[name]).sum() or 1.0) for one in found]
        means[name] = np.mean(values, axis=0)
    return means
