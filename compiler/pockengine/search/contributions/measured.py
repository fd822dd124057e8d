"""Contributions as measured: what short trainings of single units add to accuracy on samples that were held out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...errors import DataError, PockError
from ..space import Choice, Importance, Space, with_option
from .contributions import Contributions, Gains, check_without_adapters
from .kept import Journal
from .trainer import Trainer, head_start, measured_recipe, vectors
from .work import Clock, Data, Work, identity_of

METRICS = ("accuracy", "loss")


@dataclass(frozen=True)
class Training:
    """How a contribution is measured.

    steps       of each short training
    seeds       orders of samples, each of which all schemes are trained in; a gain is the mean over them
    metric      `accuracy`: the share of held-out samples that is right; `loss`: the decrease of their loss, for models
                that have no accuracy, or where there are too few samples to see small gains in it
    depths      at how many depths biases and norms are measured, from the last module's to everyone's"""

    steps: int = 100
    seeds: int = 3
    metric: str = "accuracy"
    depths: int = 8

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise PockError(f"gains are measured in {' or '.join(METRICS)}, not in '{self.metric}'")
        for name in ("steps", "seeds", "depths"):
            if getattr(self, name) < 1:
                raise PockError(f"{name} must be at least 1")


def measure(
    space: Space,
    train_data: Data,
    eval_data: Data,
    training: Training | None = None,
    importance: Importance | None = None,
    work: Work | None = None,
) -> Contributions:
    """Contributions as the published search for tiny devices measures them (arXiv 2206.15472): each weight at each of
    its shares beside the head, and all biases and norms of the last k modules beside the head, trained on `train_data`
    and compared on `eval_data` with the head alone, in the same order of samples. Units of the head are compared with
    the untrained model. What the last k modules gain is divided: a module has what it adds, each of its biases and
    norms the same part of it. `importance` says which channels a share trains; without it, magnitude.

    The first seed is measured for all units at share 1, then at the others, then the next seeds are. When the time is
    over, shares that were not measured lie on a line between those that were. Each training that is done is kept, so
    with the same folder a later call goes on, also with more seeds. Raises PockError where the time was not enough for
    each unit, DataError, RecipeError or UnsupportedOperatorError."""
    check_without_adapters(space)
    training, work, importance = training or Training(), work or Work(), importance or {}
    clock = Clock(work.seconds)
    named = {name: array.tolist() for name, array in sorted(importance.items())}
    identity = identity_of(
        space,
        measured_recipe(space),
        {"train": train_data, "eval": eval_data},
        steps=training.steps,
        importance=json.dumps(named),
        seed=work.seed,
    )
    plan = _Plan(space, training)
    journal = Journal(work.kept("measured.jsonl", identity))
    with Trainer(space, train_data, eval_data, importance, work) as trainer:
        _Measuring(plan, trainer, journal, work, clock).run()
    found = _Results(plan, journal)
    provenance = {
        "steps": training.steps,
        "seeds": training.seeds,
        "metric": training.metric,
        "channels": "given" if importance else "magnitude",
        "seed": work.seed,
        "measured": found.count(),
        "of": len(plan.all()),
        "noise": found.noise(),
    }
    return Contributions(space, found.gains(), "measured", clock.seconds, provenance, importance)


class _Plan:
    """What is trained, and beside what."""

    def __init__(self, space: Space, training: Training) -> None:
        self.space, self.training, self.head = space, training, head_start(space)
        self.base = tuple(index if place >= self.head else 0 for place, index in enumerate(space.full))
        self.modules = list(vectors(space))
        points = np.linspace(0, len(self.modules), min(training.depths, len(self.modules)) + 1)
        self.depths = [round(float(point)) for point in points[1:]]

    def single(self, unit: int, option: int) -> Choice:
        """One unit beside the head; of the head's own, that unit alone."""
        return with_option(self.beside(unit), unit, option)

    def beside(self, unit: int) -> Choice:
        """What a single unit is compared with."""
        return self.base if unit < self.head else self.space.frozen

    def last(self, depth: int) -> Choice:
        """All biases and norms of the last modules beside the head."""
        trained = {place for module in self.modules[len(self.modules) - depth :] for place in module}
        return tuple(self.space.full[place] if place in trained else index for place, index in enumerate(self.base))

    def singles(self) -> Iterator[tuple[int, int]]:
        """The units and options that are measured alone: not biases and norms before the head."""
        for place, unit in enumerate(self.space.units):
            if unit.is_weight or place >= self.head:
                for option in range(1, len(unit.shares)):
                    yield place, option

    def first(self) -> list[Choice]:
        """What has to be measured for there to be a result: each unit whole."""
        whole = [self.single(unit, option) for unit, option in self.singles() if option == self.space.full[unit]]
        return list(dict.fromkeys([self.space.frozen, self.base, *whole, *map(self.last, self.depths)]))

    def all(self) -> list[tuple[Choice, int]]:
        """Every training, in the order in which they are worth most: scheme and seed."""
        first = self.first()
        others = [self.single(unit, option) for unit, option in self.singles()]
        choices = list(dict.fromkeys([*first, *others]))
        return [(choice, seed) for seed in range(self.training.seeds) for choice in choices if any(choice) or not seed]


def _key(choice: Choice, seed: int) -> str:
    return json.dumps([seed if any(choice) else 0, [[place, index] for place, index in enumerate(choice) if index]])


class _Measuring:
    """Does what is not in the journal."""

    def __init__(self, plan: _Plan, trainer: Trainer, journal: Journal, work: Work, clock: Clock) -> None:
        self.plan, self.trainer, self.journal, self.work, self.clock = plan, trainer, journal, work, clock
        self.done = 0

    def run(self) -> None:
        """All of the plan, or what there is time for. Raises PockError where that is too little."""
        everything, needed = self.plan.all(), set(self.plan.first())
        batches: dict[tuple[int, bool], list[Choice]] = {}
        for choice, seed in everything:
            batches.setdefault((seed, choice not in needed), []).append(choice)
        for (seed, _), choices in batches.items():
            for choice in sorted(choices, key=self.trainer.program):
                if not self._measured(choice, seed, len(everything)):
                    self._refuse_too_little()
                    return

    def _measured(self, choice: Choice, seed: int, total: int) -> bool:
        """Whether there was time for it, or it is known."""
        self.work.progress("measure", self.done, total)
        if self.journal.get(_key(choice, seed)) is None:
            if self.clock.is_over():
                return False
            trained = self.trainer.train(choice, self.plan.training.steps, self.work.seed + seed)
            loss, accuracy = trained.evaluation.loss, trained.evaluation.accuracy
            result = {"loss": loss if np.isfinite(loss) else None, "accuracy": accuracy}
            self.journal.add(_key(choice, seed), result)
        self.done += 1
        self.work.progress("measure", self.done, total)
        return True

    def _refuse_too_little(self) -> None:
        first = self.plan.first()
        known = sum(1 for choice in first if self.journal.get(_key(choice, 0)) is not None)
        if known < len(first):
            raise PockError(
                f"the time was over after {known} of the {len(first)} trainings that are needed at least: allow more "
                "time or fewer steps, or go on later with the same folder"
            )


class _Results:
    """From trainings to gains."""

    def __init__(self, plan: _Plan, journal: Journal) -> None:
        self.plan, self.journal = plan, journal

    def count(self) -> int:
        """Trainings that are known."""
        return sum(1 for choice, seed in self.plan.all() if self.journal.get(_key(choice, seed)) is not None)

    def gains(self) -> Gains:
        """For each unit and share."""
        rows = [[0.0] * len(unit.shares) for unit in self.plan.space.units]
        known: dict[int, dict[float, float]] = {}
        for unit, option in self.plan.singles():
            if values := self._gained(self.plan.single(unit, option), self.plan.beside(unit)):
                share = self.plan.space.units[unit].shares[option]
                known.setdefault(unit, {0.0: 0.0})[share] = float(np.mean(values))
        for unit, found in known.items():
            shares = sorted(found)
            rows[unit] = [
                float(np.interp(share, shares, [found[one] for one in shares]))
                for share in self.plan.space.units[unit].shares
            ]
        for unit, gain in self._vectors().items():
            rows[unit][-1] = gain
        return tuple(tuple(row) for row in rows)

    def noise(self) -> float | None:
        """The standard error of a gain, the root of the mean square over the gains of weights; None from one seed."""
        found = []
        for unit, option in self.plan.singles():
            values = self._gained(self.plan.single(unit, option), self.plan.beside(unit))
            if len(values) > 1:
                found.append(np.var(values, ddof=1) / len(values))
        return float(np.sqrt(np.mean(found))) if found else None

    def _vectors(self) -> dict[int, float]:
        """What each bias and norm before the head adds."""
        depths = [0, *self.plan.depths]
        gained = [0.0, *(float(np.mean(self._gained(self.plan.last(d), self.plan.base))) for d in self.plan.depths)]
        found, count = {}, len(self.plan.modules)
        for place, module in enumerate(self.plan.modules):
            below, above = np.interp([count - place - 1, count - place], depths, gained)
            found.update(dict.fromkeys(module, float(above - below) / len(module)))
        return found

    def _gained(self, choice: Choice, beside: Choice) -> list[float]:
        """What a scheme gains over another, for each seed of which both are known."""
        found = []
        for seed in range(self.plan.training.seeds):
            one, other = (self.journal.get(_key(each, seed)) for each in (choice, beside))
            if one is not None and other is not None:
                found.append(self._value(one) - self._value(other))
        return found

    def _value(self, result: dict[str, float | None]) -> float:
        value = result.get(self.plan.training.metric)
        if value is None and self.plan.training.metric == "accuracy":
            raise DataError("the model's loss has no accuracy: measure gains in its loss")
        if value is None:
            raise DataError("training diverged, so it has no loss: lower the learning rate")
        return value if self.plan.training.metric == "accuracy" else -value
