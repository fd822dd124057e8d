"""Short trainings of one compiled scheme at several learning rates, judged by samples kept back from the data."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from ...artifact import Artifact, Session
from ...artifact.training import classes_of
from ...codegen.samples import held_out
from ...errors import DataError, PockError, RecipeError
from ...ir import Array
from ...recipe import Recipe
from ...recipe.rate_schedule import RateSchedule
from ..contributions.kept import Journal
from ..contributions.samples import Samples
from ..contributions.trainer import OpenProgram
from ..contributions.work import Clock, Data, Work, identity_of
from ..space import Choice, Space
from .groups import RateGroups
from .rates import EVERYTHING, Rates, RateTrial

ORDERS = 2
"""Orders of samples in which each rate is tried. Another rate is taken where it is better in all of them."""
KEPT_BACK, MOST_KEPT_BACK = 0.2, 1024
"""The share of each class's samples that is not trained on but judged by, and how many at most."""
FARTHEST, FARTHEST_OF_GROUP = 6, 2
"""Half decades: how far the rates are moved together, and that of a group beyond them."""

Losses = tuple[float, ...]
"""Of the samples that were kept back, for each order; infinite where training diverged."""


def find_rates(
    space: Space, choice: Choice, recipe: Recipe, data: Data, steps: int, work: Work | None = None
) -> tuple[Rates, Recipe]:
    """Learning rates for a recipe that trains `choice`, and the recipe with them. `data`: input -> [samples, …].

    One program is compiled, whose rates are states. It trains `steps` steps from the model's own contents, at the
    recipe's rates; then at rates half a decade (a factor of √10) higher and lower, and on in that direction for as long
    as the loss of a fifth of the samples, which are not trained on, becomes smaller in each of two orders of samples.
    First all rates move together, then those of each group alone (see RateGroups). Where the loss is at no rate smaller
    than before training, the recipe's rates stay. A schedule keeps its form in the short training.

    With a folder, each training that is done is kept. When the time is over, what is known by then counts. Raises
    DataError where there are too few samples, RecipeError where the recipe's rates are 0, PockError where training
    diverges at each rate, UnsupportedOperatorError."""
    work = work or Work()
    groups = RateGroups.of(space, choice)
    movable = [name for name in groups.members if groups.rate(name) > 0]
    if not movable:
        raise RecipeError("the recipe's learning rate is 0, and rates are tried around it: set optimizer.lr")
    tried = tried_recipe(recipe, groups, steps)
    identity = identity_of(space, tried, {"data": data}, seed=work.seed, steps=steps)
    journal = Journal(work.kept("rates.jsonl", identity))
    clock = Clock(work.seconds)
    artifact = work.compiled(space, tried)
    _check_states(artifact, groups)
    opened = OpenProgram(space, choice, artifact)
    try:
        samples = Samples(data, artifact.manifest, "data")
        trained, kept_back = _parts(opened.session, samples, work.seed)
        train = Samples(trained, artifact.manifest, "data that are trained on")
        judged = Samples(kept_back, artifact.manifest, "samples kept back", whole=False)
        trials = _Trials(opened, groups, train, judged, journal, _Running(steps, clock, work, len(movable)))
        before = trials.before()
        rates, losses = _found(trials, movable, before)
    finally:
        opened.session.close()
    found = Rates(
        rates, steps, ORDERS, judged.count, before, float(np.mean(losses)), tuple(trials.rows), not trials.running.cut
    )
    return found, recipe.with_(optimizer=groups.written(rates))


def _check_states(artifact: Artifact, groups: RateGroups) -> None:
    """Raises DataError where the model has a tensor of a name that a rate's state should have."""
    states = {tensor.name for tensor in artifact.manifest.tensors if tensor.role == "state"}
    for name in groups.states(dict.fromkeys(groups.members, 0.0)):
        if name not in states:
            raise DataError(f"the model has a tensor '{name}', which is what the learning rate would be called")


def tried_recipe(recipe: Recipe, groups: RateGroups, steps: int) -> Recipe:
    """What is compiled: the recipe with rates that can be set, without averages of weights, which a short training
    hardly moves."""
    optimizer = groups.optimizer
    schedule = shortened(optimizer.schedule, steps)
    return recipe.with_(optimizer=replace(optimizer, schedule=schedule, adjustable=True), ema=None, last_batch="drop")


def shortened(schedule: RateSchedule, steps: int) -> RateSchedule:
    """A schedule of the same form over so few steps: one that ends does so at the last of them; one that goes on for
    ever begins with its warm-up at most for a tenth of them."""
    if schedule.steps is not None:
        warmup = min(schedule.warmup * steps // schedule.steps, steps - 1)
        return replace(schedule, steps=steps, warmup=warmup)
    warmup = min(schedule.warmup, steps // 10)
    return RateSchedule(warmup=warmup, warmup_start=schedule.warmup_start if warmup else 0.0)


def _parts(session: Session, samples: Samples, seed: int) -> tuple[dict[str, Array], dict[str, Array]]:
    """The samples that are trained on, and those that are kept back: a part of each class."""
    share = min(KEPT_BACK, MOST_KEPT_BACK / samples.count)
    chosen = held_out(samples.count, share, seed, classes_of(session, samples.all()))
    trained, kept_back = np.flatnonzero(~chosen), np.flatnonzero(chosen)
    if len(trained) < samples.step:
        raise DataError(
            f"{samples.count} samples are too few to find learning rates: {len(kept_back)} of them are kept back to "
            f"judge by, and one step takes {samples.step}"
        )
    return samples.take(trained), samples.take(kept_back)


@dataclass
class _Running:
    """How long trials go on, and how far they are."""

    steps: int
    clock: Clock
    work: Work
    groups: int
    done: int = 0
    cut: bool = False

    def report(self) -> None:
        """So many trainings of as many as are likely."""
        likely = ORDERS * (4 + (2 * self.groups if self.groups > 1 else 0))
        self.work.progress("rates", self.done, max(self.done + 1, likely))

    def may_train(self) -> bool:
        """Whether there is time for another step; there always is for the first rate."""
        self.cut = self.cut or (self.done >= ORDERS and self.clock.is_over())
        return not self.cut


@dataclass
class _Trials:
    """Trainings of one program at rates of groups; those that are known are taken from the journal."""

    opened: OpenProgram
    groups: RateGroups
    train: Samples
    judged: Samples
    journal: Journal
    running: _Running
    known: dict[str, Losses] = field(default_factory=dict)
    rows: list[RateTrial] = field(default_factory=list)

    def before(self) -> float:
        """The loss before any training. Raises DataError where it is not finite."""
        self.opened.reset(0)
        loss = self.opened.session.evaluate(self.judged.all()).loss
        if not np.isfinite(loss):
            raise DataError("the model's loss is not finite before any training: the model or the data are at fault")
        return loss

    def losses(self, rates: Mapping[str, float], group: str) -> Losses:
        """One for each order; where it diverges in one, or there is no time, all are infinite. `group`: whose rates
        moved."""
        key = json.dumps(sorted(rates.items()))
        if key not in self.known:
            found = []
            for order in range(ORDERS):
                if (loss := self._loss(f"{order} {key}", rates, order)) is None:
                    return (np.inf,) * ORDERS
                found.append(loss)
            self.known[key] = tuple(found) if np.isfinite(found).all() else (np.inf,) * ORDERS
        losses = self.known[key]
        lr = rates[list(rates)[-1] if group == EVERYTHING else group]
        row = RateTrial(group, lr, float(np.mean(losses)) if np.isfinite(losses[0]) else None)
        if row not in self.rows:
            self.rows.append(row)
        return losses

    def _loss(self, key: str, rates: Mapping[str, float], order: int) -> float | None:
        """None where there is no time for it."""
        known = self.journal.get(key)
        self.running.report()
        if known is None:
            trained = self._trained(rates, self.running.work.seed + order)
            if trained is None:
                return None
            known = {"loss": trained if np.isfinite(trained) else None}
            self.journal.add(key, known)
        self.running.done += 1
        loss = known["loss"]
        return np.inf if loss is None else loss

    def _trained(self, rates: Mapping[str, float], seed: int) -> float | None:
        """The loss behind a short training; not finite where it diverged, None where the time was over before its
        end."""
        self.opened.reset(seed)
        session = self.opened.session
        for state, rate in self.groups.states(rates).items():
            session.set_tensor(state, np.array(rate, np.float32))
        for batch in islice(self.train.batches(seed), self.running.steps):
            if not self.running.may_train():
                return None
            if not np.isfinite(session.step(batch)):
                return float("inf")
        return session.evaluate(self.judged.all()).loss


def _found(trials: _Trials, movable: Sequence[str], before: float) -> tuple[dict[str, float], Losses]:
    """The rates of all groups, and the losses with them. Where nothing is learned at any rate, the recipe's, if they do
    not diverge: without that, the best rate would be the one that changes least."""
    groups = trials.groups

    def moved(places: Mapping[str, int]) -> dict[str, float]:
        return {name: half_decades(groups.rate(name), places.get(name, 0)) for name in groups.members}

    def together(place: int) -> Losses:
        return trials.losses(moved(dict.fromkeys(movable, place)), EVERYTHING)

    best = climb(0, together, FARTHEST)
    losses = together(best)
    if not np.isfinite(losses).all():
        _refuse(trials)
    if not _better(losses, (before,) * ORDERS):
        best = 0 if np.isfinite(together(0)).all() else best
        return moved(dict.fromkeys(movable, best)), together(best)
    places = dict.fromkeys(movable, best)
    for name in movable if len(movable) > 1 else ():

        def alone(place: int, name: str = name) -> Losses:
            return trials.losses(moved({**places, name: place}), name)

        places[name] = climb(best, alone, FARTHEST_OF_GROUP)
        losses = alone(places[name])
    return moved(places), losses


def _refuse(trials: _Trials) -> None:
    if trials.running.cut:
        raise PockError("the time was over before a learning rate was found that trains: allow more minutes")
    raise PockError(
        "training diverges at the recipe's learning rate and at each that is lower, down to a thousandth of it: look "
        "at the data and the loss, or set another optimizer.lr"
    )


def half_decades(rate: float, places: int) -> float:
    """A rate so many half decades higher, with two digits; with none, the rate itself."""
    return float(f"{rate * 10 ** (places / 2):.2g}") if places else rate


def climb(start: int, losses: Callable[[int], Losses], farthest: int) -> int:
    """The place from which neither neighbour is better in each order. From a place that diverges it goes down until one
    does not; then up, or where that is worse, down."""
    best = start
    while best > start - farthest and not np.isfinite(losses(best)).all():
        best -= 1
    for direction in (1, -1) if best == start else (-1,):
        begin = best
        while abs(best + direction - start) <= farthest and _better(losses(best + direction), losses(best)):
            best += direction
        if best != begin:
            break
    return best


def _better(losses: Losses, others: Losses) -> bool:
    return all(one < other for one, other in zip(losses, others, strict=True))
