"""Contributions by the ratio of gradient to weight over the first steps of training everything."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...artifact import Session
from ...ir import Array
from ..space import Importance, Space
from .contributions import Contributions, check_without_adapters, gains_of
from .gradients import GradientSession, by_channel
from .kept import KeptArrays
from .samples import Samples
from .work import Clock, Data, Work, identity_of

_LEAST_RMS = 0.01
"""What the root mean square of a parameter counts at least, so that one that begins at zero has a finite ratio."""
_STEP = "steps"


def gradient_ratio(
    space: Space, data: Data, steps: int = 10, importance: Importance | None = None, work: Work | None = None
) -> Contributions:
    """Contributions from the first steps of training everything as the base recipe says: the norm of a unit's gradient,
    of the channels that a share trains, over the norm of the unit, each the root of the mean square over the steps.
    So a unit gains what share of itself a step of plain gradient descent would change. `importance` says which channels
    a share trains; without it, magnitude. Raises DataError, RecipeError or UnsupportedOperatorError."""
    check_without_adapters(space)
    work, importance = work or Work(), importance or {}
    clock = Clock(work.seconds)
    base = space.base.with_(accumulate=1, ema=None, frozen=None, trained=None, last_batch="drop")
    artifact = work.compiled(space, Space(space.graph, base, space.units).recipe(space.full))
    identity = identity_of(space, space.base, {"data": data}, seed=work.seed, steps=steps)
    kept = KeptArrays(work.kept("ratio.safetensors", identity))
    watching = GradientSession(space, work)
    training = artifact.load(seed=work.seed)
    try:
        samples = Samples(data, artifact.manifest, "samples")
        sums = _Run(space, watching, training, kept).over(samples, steps, work, clock)
    finally:
        training.close()
        watching.close()
    count = int(sums[_STEP])
    gradients = {unit.name: sums[f"gradient.{unit.name}"] / count for unit in space.units}
    gains = []
    for unit, row in zip(space.units, gains_of(space, gradients, importance, {}), strict=True):
        weight = max(float(sums[f"weight.{unit.name}"][0]) / count, _LEAST_RMS**2 * np.prod(unit.shape))
        gains.append(tuple(float(np.sqrt(square / weight)) for square in row))
    channels = "given" if importance else "magnitude"
    provenance = {"steps": count, "batch": samples.step, "channels": channels, "seed": work.seed}
    return Contributions(space, tuple(gains), "gradient_ratio", clock.seconds, provenance, importance)


class _Run:
    """Training, each step's gradients seen before it: sums over the steps of squared norms, of gradients by channel and
    of whole weights."""

    def __init__(self, space: Space, watching: GradientSession, training: Session, kept: KeptArrays) -> None:
        self.space, self.watching, self.training, self.kept = space, watching, training, kept
        self.sums: dict[str, Array] = {_STEP: np.array(0, np.int64)}
        for unit in space.units:
            self.sums[f"gradient.{unit.name}"] = np.zeros(1 if unit.axis is None else unit.shape[unit.axis])
            self.sums[f"weight.{unit.name}"] = np.zeros(1)

    def over(self, samples: Samples, steps: int, work: Work, clock: Clock) -> Mapping[str, Array]:
        """The sums over so many steps, or over as many as there is time for, one at least."""
        known, begun = self._continued(), clock.seconds
        for index, batch in enumerate(samples.batches(work.seed)):
            each = (clock.seconds - begun) / max(1, index - known)
            if index >= steps or (index >= max(1, known) and clock.is_over(each)):
                break
            if index < known:
                continue
            work.progress("gradients", index, steps)
            self._step(batch)
            self.kept.save(self._arrays)
        work.progress("gradients", steps, steps)
        self.kept.save(self._arrays, at_once=int(self.sums[_STEP]) > known)
        return self.sums

    def _step(self, batch: Mapping[str, Array]) -> None:
        for unit, gradient in self.watching.gradients(batch):
            self.sums[f"gradient.{unit.name}"] += by_channel(gradient, gradient, unit.axis)
            weight = self.watching.session.tensor(unit.name)
            self.sums[f"weight.{unit.name}"] += by_channel(weight, weight, None)
        self.training.step(batch)
        self._follow()
        self.sums[_STEP] += 1

    def _follow(self) -> None:
        """The gradients are seen at the weights that training has come to."""
        for unit in self.space.units:
            self.watching.session.set_tensor(unit.name, self.training.tensor(unit.name))

    def _arrays(self) -> dict[str, Array]:
        trained = {unit.name: self.training.tensor(unit.name) for unit in self.space.units}
        trained |= self.training.optimizer_state()
        return {**self.sums, **{f"training.{name}": array for name, array in trained.items()}}

    def _continued(self) -> int:
        """Goes on from what is kept; the steps that it has."""
        if found := self.kept.load(self._arrays()):
            for name, array in found.items():
                if name.startswith("training."):
                    self.training.set_tensor(name.removeprefix("training."), array)
                else:
                    self.sums[name] = array
            self._follow()
        return int(self.sums[_STEP])
