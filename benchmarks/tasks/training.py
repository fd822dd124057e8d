"""Trains a compiled step on samples, and judges it by others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import pockengine as pock

from .rates import number_at, set_rate
from .task import Metric, Split, Tensors

Told = Callable[[int, float], None]


@dataclass(frozen=True)
class Plan:
    """How long, and how fast. rate: the number of the first learning rate (`rates`)."""

    steps: int
    rate: int
    seed: int = 0


class Trainer:
    """A session that begins anew as often as it is asked to. Closes as a context manager."""

    def __init__(self, artifact: pock.Artifact, threads: int = 1) -> None:
        self.session = artifact.load(threads=threads)
        self._fresh = {**self.session.state(), **self.session.optimizer_state()}

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *error: object) -> None:
        self.session.close()

    def begin(self, weights: Tensors) -> None:
        """Weights as given, but for those that are kept in few bits; these, adapters and the optimizer as after
        compiling."""
        for name, value in {**self._fresh, **weights}.items():
            if name in self._fresh:
                self.session.set_tensor(name, value)

    def train(self, samples: Split, plan: Plan, told: Told = lambda step, loss: None) -> float:
        """Steps over all samples in orders that the seed decides. The mean loss of the last tenth of the steps; NaN
        where training diverged, after which no more steps are done."""
        chance = np.random.default_rng([plan.seed, 77])
        size, order = self.session.batch, np.empty(0, int)
        losses: list[float] = []
        number = -1
        for step in range(plan.steps):
            if number != (wanted := number_at(plan.rate, step / plan.steps)):
                set_rate(self.session, number := wanted)
            if len(order) < size:
                order = np.concatenate([order, chance.permutation(len(samples))])
            batch, order = order[:size], order[size:]
            losses.append(self.session.step(samples.batch(batch)))
            if not np.isfinite(losses[-1]):
                return float("nan")
            told(step + 1, losses[-1])
        return float(np.mean(losses[-max(1, plan.steps // 10) :]))

    def judge(self, samples: Split, metric: Metric) -> float:
        """The share that is right, from 0 to 1."""
        if metric is Metric.ACCURACY:
            found = self.session.evaluate(samples.batch(np.arange(len(samples)))).accuracy
            assert found is not None
            return found
        (logits,) = self.session.predict(samples.inputs).values()
        said = logits.argmax(1)
        shares = [float((said[samples.labels == one] == one).mean()) for one in np.unique(samples.labels)]
        return float(np.mean(shares))
