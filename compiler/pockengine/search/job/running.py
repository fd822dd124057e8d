"""The stages of a search, one after the other, each kept in a folder as soon as it is there."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path

from ...codegen.files import write_whole
from ...plan.budget import RESERVE
from ...recipe import Recipe, batch_of
from ...recipe.optimizer import optimizer_mapping
from ..choosing import Chooser, Chosen, Plans, Point, Preference, front, preferred
from ..contributions import Contributions, Work, channel_importance, fisher, gradient_ratio, load, measure, save
from ..contributions.earlier import earlier_first
from ..contributions.kept import Journal
from ..contributions.trainer import Trainer
from ..contributions.work import Clock, identity_of
from ..costs import Costs
from ..rates import RateGroups, find_rates
from ..space import Choice, Space
from ..writing import few_rules, recipe_text
from .comments import comments_of
from .comparison import schemes_of, trained_numbers
from .data import Data, checked_data
from .found import AT_RATES, EARLIER, GAINS, ONCE, Compared, Found, LayerRow, Training, UnitRow
from .request import SearchRequest
from .trying import Tried, best_of, try_schemes
from .whole import WholeCosts

CONFIRMING_SEEDS = 3
"""Orders of samples in which each scheme is trained to confirm it."""

_TWICE = "to keep to the memory, forward nodes are computed twice, as `memory` says"
_IN_PARTS = "to keep to the memory, a step takes its samples in {} micro-batches, as `batch` and `accumulate` say"


def run(request: SearchRequest) -> Found:
    """Find a scheme within the limits. With a folder, what was done by an earlier call that was ended is taken from
    there: the same request gives the same recipe. Raises DataError where the data do not fit the model,
    MemoryBudgetError or PockError where nothing fits into the limits, RecipeError, UnsupportedOperatorError."""
    return _Search(request).run()


@dataclass
class _Search:
    request: SearchRequest
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.request.energy is not None:
            limits = self.request.energy.within(self.request.limits)
            self.request = replace(self.request, limits=limits)
        request = self.request
        self.space = Space.of(request.graph, request.base, request.ranks)
        self.data = checked_data(self.space, request.target, request.data, "data")
        self.evaluation: Data | None = None
        if request.eval_data is not None:
            self.evaluation = checked_data(self.space, request.target, request.eval_data, "evaluation data")
        self.threads = request.threads or request.target.cores
        self.micro_batches = request.splits(self.space, self.data)
        self.work = Work(request.seed, request.minutes * 60, request.folder, None, request.progress)

    def run(self) -> Found:
        """All stages."""
        with self._timed("contributions"):
            contributions = self._contributions()
        found = self._known() or self._found(contributions)
        if self.request.lr_steps and found.rates is None:
            found = self._with_rates(found, contributions)
        return self._confirmed(found, contributions) if self.request.confirm else found

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        """What is timed within counts as its own stage, not as this one."""
        begin, others = time.monotonic(), sum(self.seconds.values())
        yield
        took = time.monotonic() - begin - (sum(self.seconds.values()) - others)
        self.seconds[stage] = self.seconds.get(stage, 0.0) + took

    def _identity(self, **settings: float | str | None) -> str:
        """Tells apart what would give other results."""
        data = {"data": self.data} | ({"eval": self.evaluation} if self.evaluation is not None else {})
        asked = self.request
        return identity_of(
            self.space,
            self.space.base,
            data,
            method=asked.method,
            channels=asked.channels,
            seed=asked.seed,
            **settings,
        )

    def _contributions(self) -> Contributions:
        kept = self.work.kept("contributions.json", self._identity(minutes=self.request.minutes))
        if kept is not None and kept.exists():
            return load(kept, self.space)
        found = self._by_method()
        if kept is not None:
            save(found, kept)
        return found

    def _by_method(self) -> Contributions:
        request, work = self.request, self.work
        if request.method == "fisher":
            return fisher(self.space, self.data, channels=request.channels, work=work)
        clock = Clock(work.seconds)
        importance = channel_importance(self.space, self.data, request.channels, work)
        work = replace(work, seconds=clock.left)
        if request.method == "gradient":
            found = gradient_ratio(self.space, self.data, importance=importance, work=work)
        else:
            assert self.evaluation is not None
            found = measure(self.space, self.data, self.evaluation, importance=importance, work=work)
        return replace(found, provenance={**found.provenance, "channels": request.channels})

    def _known(self) -> Found | None:
        """What an earlier call with this request has found."""
        if self._file is None or not self._file.exists():
            return None
        try:
            return Found.from_mapping(json.loads(self._file.read_text("utf-8")))
        except (ValueError, KeyError, TypeError, AttributeError):
            return None  # another version's: it is found anew

    @cached_property
    def _file(self) -> Path | None:
        """Where the result is kept."""
        request = self.request
        limits, target = request.limits, request.target
        settings = {"memory": limits.memory_bytes, "ms": limits.step_ms, "threads": self.threads}
        settings |= {"recompute": request.computes_twice, "micro_batches": self.micro_batches is not None}
        said = {"target": repr(target), "prefer": request.prefer, "energy": repr(request.energy)}
        if request.tries:
            settings["tries"] = request.lr_steps
        return self.work.kept("found.json", self._identity(minutes=request.minutes, **settings, **said))

    def _found(self, contributions: Contributions) -> Found:
        request, space = self.request, self.space
        chooser = self._chooser(contributions)
        chooser.check(request.limits)
        with self._timed("comparing"):
            named = schemes_of(space, chooser, request.limits)
            if request.tries:
                if (evolved := chooser.evolved(request.limits)) is not None:
                    named["evolved"] = evolved
                named[EARLIER] = chooser.with_gains(earlier_first(space)).choose(request.limits).choice
        with self._timed("choosing"):
            chosen, points = _preferred(chooser, request, list(named.values()))
        tried: dict[str, Tried] = {}
        if request.tries:
            with self._timed("trying"):
                chosen, named, tried = self._tried(chooser, chosen, named, contributions)
        chosen = replace(chosen, notes=(*chosen.notes, *_spared(chosen)))
        compared = _compared(chooser, request, chosen, named, tried)
        found = Found(
            model=request.graph.name,
            target=request.target.name,
            threads=self.threads,
            limits=request.limits,
            energy=request.energy,
            method=contributions.method,
            provenance=contributions.provenance,
            prefer=str(request.prefer),
            seed=request.seed,
            recipe="",
            chosen=chosen,
            units=_units(chooser, chosen.choice),
            layers=_layers(chooser, chosen.choice),
            front=points,
            compared=compared,
            seconds=self.seconds,
            rates=tried["found"].rates if tried else None,
        )
        recipe = tried["found"].recipe if tried else few_rules(space, chosen.choice, contributions.importance)
        found = self._written(found, recipe)
        if (file := self._file) is not None:
            write_whole(file, [json.dumps(found.to_mapping()).encode()])
        return found

    def _chooser(self, contributions: Contributions) -> Chooser:
        """Of the schemes whose steps take all samples at once, where these are enough."""
        whole = WholeCosts(self.space, self.request.target, self.threads)
        planned = Plans(whole, self.request.computes_twice, self.micro_batches)
        chooser = self._choosing(contributions, planned)
        if (finest := planned.finest) is not None:
            chooser.finest = cache(lambda: self._choosing(contributions, finest))
        return chooser

    def _choosing(self, contributions: Contributions, planned: Plans) -> Chooser:
        request, space = self.request, planned.exact(1).space
        with self._timed("costs"):
            costs = Costs(space, request.target, self.threads, progress=request.progress)
        return Chooser(space, contributions.weighed, costs, planned, request.seed, progress=request.progress)

    def _written(self, found: Found, recipe: Recipe) -> Found:
        """With the recipe's text: what it trains, and how its steps keep to the memory."""
        chosen, base = found.chosen, self.space.base
        recipe = recipe.with_(memory=None if chosen.memory is None else chosen.memory + RESERVE)
        if (count := chosen.micro_batches) > 1:
            batch = batch_of(base.bound(self.space.graph), self.space.graph)
            recipe = recipe.with_(batch=batch // count, accumulate=base.accumulate * count)
        return replace(found, recipe=recipe_text(recipe, comments_of(found)))

    def _tried(
        self, chooser: Chooser, chosen: Chosen, named: Mapping[str, Choice], contributions: Contributions
    ) -> tuple[Chosen, dict[str, Choice], dict[str, Tried]]:
        """The scheme that is best when it is trained, of the chosen one and those beside it that take no more than it
        may; all that is to be compared beside it; and what was tried, by the names that are compared."""
        request, space, limits = self.request, self.space, self.request.limits
        if request.prefer is not Preference.ACCURACY:
            limits = limits.within(chosen.cost)
        named = {GAINS: chosen.choice, **named}
        if chooser.spares and (once := chooser.once(limits)) is not None:
            named[ONCE] = once
        made = {name: chooser.made(choice, limits, "tried") for name, choice in named.items()}
        fitting = {name: one.choice for name, one in made.items() if limits.keeps(one.cost)}
        tried = try_schemes(space, fitting, contributions.importance, self.data, request.lr_steps, self.work)
        best = best_of(tried)
        if named[best] != chosen.choice:
            note = f"trained for {request.lr_steps} steps, '{best}' was better than the scheme of the largest gain"
            chosen = replace(made[best], bound=chosen.bound, notes=(*chosen.notes, note))
        return chosen, named, {"found": tried[best], **tried}

    def _with_rates(self, found: Found, contributions: Contributions) -> Found:
        """With learning rates, in its recipe too."""
        choice = found.chosen.choice
        with self._timed("rates"):
            recipe = few_rules(self.space, choice, contributions.importance)
            rates, recipe = find_rates(self.space, choice, recipe, self.data, self.request.lr_steps, self.work)
        found = replace(found, rates=rates, seconds={**found.seconds, **self.seconds})
        return self._written(found, recipe)

    def _confirmed(self, found: Found, contributions: Contributions) -> Found:
        """With short trainings of all that is compared, and of the found scheme with its own learning rates."""
        rows, space, progress = list(found.compared), self.space, self.request.progress
        with self._timed("confirming"):
            with self._confirming(space, contributions) as confirming:
                for done, one in enumerate(rows):
                    progress("confirm", done, len(rows))
                    rows[done] = replace(one, trained=confirming.of(one.choice))
            if found.rates is not None:
                optimizer = RateGroups.of(space, found.chosen.choice).written(found.rates.lr)
                space = Space(space.graph, space.base.with_(optimizer=optimizer), space.units)
                with self._confirming(space, contributions) as confirming:
                    rows.insert(1, replace(rows[0], name=AT_RATES, trained=confirming.of(rows[0].choice)))
        progress("confirm", len(rows), len(rows))
        return replace(found, compared=tuple(rows), seconds={**found.seconds, **self.seconds})

    @contextmanager
    def _confirming(self, space: Space, contributions: Contributions) -> Iterator[_Confirming]:
        """Trains schemes with a space's base recipe."""
        assert self.evaluation is not None
        optimizer = json.dumps(optimizer_mapping(space.base.optimizer))
        identity = self._identity(steps=self.request.confirm, optimizer=optimizer)
        journal = Journal(self.work.kept("confirmed.jsonl", identity))
        work = replace(self.work, seconds=None)
        with Trainer(space, self.data, self.evaluation, contributions.importance, work) as trainer:
            yield _Confirming(trainer, journal, self.request.confirm, self.request.seed)


@dataclass(frozen=True)
class _Confirming:
    """Short trainings, those that are known taken from the journal."""

    trainer: Trainer
    journal: Journal
    steps: int
    seed: int

    def of(self, choice: Choice) -> tuple[Training, ...]:
        """One a seed."""
        return tuple(self._one(choice, self.seed + number) for number in range(CONFIRMING_SEEDS))

    def _one(self, choice: Choice, seed: int) -> Training:
        key = json.dumps([seed, list(choice)])
        if (known := self.journal.get(key)) is None:
            evaluation = self.trainer.train(choice, self.steps, seed).evaluation
            finite = evaluation.loss == evaluation.loss and abs(evaluation.loss) != float("inf")
            known = {"accuracy": evaluation.accuracy, "loss": evaluation.loss if finite else None}
            self.journal.add(key, known)
        return Training(seed, known["accuracy"], known["loss"])


def _spared(chosen: Chosen) -> Iterator[str]:
    """Notes on how its steps keep to the memory."""
    if chosen.micro_batches > 1:
        yield _IN_PARTS.format(chosen.micro_batches)
    if chosen.memory is not None:
        yield _TWICE


def _compared(
    chooser: Chooser, request: SearchRequest, found: Chosen, named: Mapping[str, Choice], tried: Mapping[str, Tried]
) -> tuple[Compared, ...]:
    """What was found, and what is named: everything as a person would write it, the others in forms that fit."""
    schemes = {"found": found}
    for done, (name, choice) in enumerate(named.items()):
        request.progress("compare", done, len(named))
        schemes[name] = chooser.quickest(choice) if name == "full" else chooser.made(choice, request.limits, "usual")
    request.progress("compare", len(named), len(named))
    return tuple(
        Compared(
            name,
            made.choice,
            made.cost,
            made.gain,
            trained_numbers(chooser.space, made.choice),
            loss=tried[name].rates.loss if name in tried else None,
        )
        for name, made in schemes.items()
    )


def _preferred(chooser: Chooser, request: SearchRequest, usual: Sequence[Choice]) -> tuple[Chosen, tuple[Point, ...]]:
    """The scheme that a person prefers, and the front. Beyond accuracy, the front's point gives the limits in which the
    scheme is chosen, as it is planned: a point's cost may be an estimate."""
    limits = request.limits
    chosen = chooser.choose(limits, usual)
    points = front(chooser, limits)
    if request.prefer is not Preference.ACCURACY and points:
        point = preferred(points, request.prefer)
        planned = chooser.quickest(point.choice).cost
        told = not point.is_spared and limits.keeps(planned)
        chosen = chooser.choose(limits.within(planned if told else point.room), [point.choice])
    return chosen, points


def _units(chooser: Chooser, choice: Choice) -> tuple[UnitRow, ...]:
    return tuple(
        UnitRow(unit.name, unit.module, unit.shape, unit.shares, option, gains, unit.ranks)
        for unit, option, gains in zip(chooser.space.units, choice, chooser.gains, strict=True)
    )


def _layers(chooser: Chooser, choice: Choice) -> tuple[LayerRow, ...]:
    """What each layer adds to a scheme, or would add."""
    best = [max(range(len(gains)), key=lambda index: gains[index]) for gains in chooser.gains]
    places: dict[str, list[int]] = {}
    for place, unit in enumerate(chooser.space.units):
        places.setdefault(unit.module, []).append(place)
    rows = []
    for name, own in places.items():
        trained = any(choice[place] for place in own)
        other = tuple(
            option if place not in own else 0 if trained else max(best[place], 1) for place, option in enumerate(choice)
        )
        nbytes, ms = _difference(chooser, choice, other)
        rows.append(LayerRow(name, nbytes if trained else -nbytes, ms if trained else -ms))
    return tuple(rows)


def _difference(chooser: Chooser, choice: Choice, other: Choice) -> tuple[int, float]:
    """By how much a choice is estimated above another; all of it where the other trains nothing."""
    cost = chooser.costs.of(choice)
    beside = chooser.costs.of(other) if any(other) else chooser.least()
    return cost.peak_bytes - beside.peak_bytes, cost.step_ms - beside.step_ms
