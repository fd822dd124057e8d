"""From gains, costs and limits to one scheme: solved as if costs added up, then held against what planning says."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from ...progress import Progress, quiet
from ..costs import Cost, CostModel
from ..space import Choice, Space, alone, with_option
from .additive import Rows, lower
from .chosen import Chosen, impossible
from .evolution import evolve
from .exact import solve
from .exchange import exchanged, improvements
from .limits import Limits
from .problem import Gains, Problem, gain_of
from .sparing import Planner

_COMPANIES = 3
"""Schemes beside which it is asked what options add: everything, then what was found."""

_TOLERANCE = 5e-3
"""The part of the largest gain that a program's solution may miss: costs are not known better, and exchanges follow."""

_EXCHANGES = 2000
"""Exchanges that are estimated at most, in half a second or a second."""

_CHECKS = 6
"""Schemes that are planned before one of them has units taken out until it fits."""

_MORE = 1.01
"""What a scheme that does not fit gains against one that does, if it is worth several plans to see how much of it
would."""

_TRIALS = 6
"""Units that are planned beside the scheme found, where the estimate says that they nearly fit."""

_NEARLY = 1.03
"""What an estimate may be above a limit there: about as wrong as estimates are."""

_ENOUGH = 0.9999
"""The part of the largest gain that there is which is all of it."""

_HALVINGS = 4
"""Schemes of more memory that are planned where a step can be made to take less."""

Fits = Callable[[Choice], bool]


@runtime_checkable
class Learning(Protocol):
    """A model of costs that can learn from a scheme."""

    def refined(self, choices: Iterable[Choice], progress: Progress) -> CostModel:
        """The same, but better near these choices."""


@dataclass
class Chooser:
    """Finds schemes of one space.

    gains      for each unit and option
    costs      quick estimates
    planned    what planning says: slow, and right; and how a step can be made to take less memory
    seconds    what the solution of one program may take
    finest     makes the chooser of the same schemes where a step takes its samples one by one; None: it takes all"""

    space: Space
    gains: Gains
    costs: CostModel
    planned: Planner
    seed: int = 0
    seconds: float = 20.0
    progress: Progress = quiet
    finest: Callable[[], Chooser] | None = None
    _companies: dict[Choice, Problem] = field(default_factory=dict, init=False)
    _before: list[Problem] = field(default_factory=list, init=False)
    _known: dict[Choice, Chosen] = field(default_factory=dict, init=False)
    _once: dict[Limits, list[Choice]] = field(default_factory=dict, init=False)
    _far: dict[tuple[Choice, int], Chosen] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._rows = Rows(self.space, self.costs, self.gains, self.progress)

    def with_gains(self, gains: Gains) -> Chooser:
        """The same costs, and what other contributions say."""
        finest = self.finest
        return replace(self, gains=gains, finest=None if finest is None else lambda: finest().with_gains(gains))

    def gain(self, choice: Choice) -> float:
        """If gains add."""
        return gain_of(self.gains, choice)

    def check(self, limits: Limits) -> None:
        """Raises MemoryBudgetError or PockError where nothing can be trained within the limits."""
        if self._allows_any(limits):
            return
        choosers = [self] if self.finest is None else [self, self.finest()]
        if not choosers[-1]._allows_any(limits):
            least = min(choosers, key=lambda one: limits.missing(one.least()))
            raise impossible(limits, least.least(), least.space.base.batch)

    def _allows_any(self, limits: Limits) -> bool:
        """Whether any of the smallest schemes is within the limits."""
        smallest = (self.made(one.choice, limits, "alone") for one in self._smallest())
        return limits.keeps(self.least()) or any(limits.keeps(made.cost) for made in smallest)

    def choose(self, limits: Limits, beside: Sequence[Choice] = ()) -> Chosen:
        """The scheme of the largest gain within the limits: what is found, or one of those `beside` it. Raises
        MemoryBudgetError or PockError where nothing can be trained within them."""
        self.check(limits)
        best = self._best(limits, beside) if self._allows_any(limits) else None
        if best is not None and (self.finest is None or best.gain >= _ENOUGH * self._most()):
            return best
        assert self.finest is not None
        if best is not None and not self.finest()._allows_any(limits):
            return best
        fine = self.finest().choose(limits)
        bound = fine.bound if best is None else max(best.bound, fine.bound)
        if best is not None and best.gain >= fine.gain:
            return replace(best, bound=bound)
        step = self.made(fine.choice, limits, "spared")
        return replace(step, estimated=fine.estimated, bound=bound, notes=fine.notes)

    def _most(self) -> float:
        """The largest gain that there is."""
        return sum(max(0.0, *row) for row in self.gains)

    def _best(self, limits: Limits, beside: Sequence[Choice]) -> Chosen:
        notes: list[str] = []
        seen = self._checked(self.estimate, "exact", limits, notes)
        if not seen:
            seen = self._checked(self._evolved, "evolution", limits, notes)
        self._once[limits] = [made.choice for made in seen if limits.keeps(made.cost)]
        seen += self.beyond(limits)
        fitting = [made for made in seen if limits.keeps(made.cost)]
        most = max(map(_gain, fitting), default=0)
        others = (self.made(choice, limits, "usual") for choice in beside if self.gain(choice) > most)
        fitting += [made for made in others if limits.keeps(made.cost)]
        best = self._grown(max(fitting, key=_gain) if fitting else self._single(limits), limits)
        told = tuple(notes) if best.method in ("exact", "evolution") else ()  # of others no scheme was repaired
        return replace(best, bound=max(self.bound(limits), best.gain), notes=told)

    @property
    def spares(self) -> bool:
        """Whether a step may be made to take less memory than its quickest form."""
        return self.planned.farthest > 1

    def once(self, limits: Limits) -> Choice | None:
        """Of the schemes that `choose` came to within the limits, the one of the largest gain whose quickest step is
        within them."""
        return max(self._once.get(limits, ()), key=self.gain, default=None)

    def evolved(self, limits: Limits) -> Choice | None:
        """What the published search finds with the same gains and costs, as planned within the limits; None where it
        finds nothing."""
        seen = self._checked(self._evolved, "evolution", limits, [])
        fitting = [made for made in seen if limits.keeps(made.cost)]
        return max(fitting, key=_gain).choice if fitting else None

    def estimate(self, limits: Limits, without: Container[Choice] = (), exchanges: int = _EXCHANGES) -> Choice | None:
        """The best choice by estimates, `without` some; None where integer programming finds none. Costs do not quite
        add up, so what does not fit has units taken out until it does. Of exchanges that make it better so many are
        estimated."""

        def fits(choice: Choice) -> bool:
            return any(choice) and limits.keeps(self.costs.of(choice)) and choice not in without

        solved = self._solved(limits)
        found = [choice for choice in solved if fits(choice)]
        found = found or [one for choice in solved if (one := self._without_least(choice, fits)) is not None]
        return exchanged(self.gains, max(found, key=self.gain), fits, exchanges) if found else None

    def _evolved(self, limits: Limits, without: Container[Choice]) -> Choice | None:
        def allows(choice: Choice) -> bool:
            return limits.keeps(self.costs.of(choice)) and choice not in without

        return evolve(self.space, self.gains, allows, self.seed)

    def _checked(
        self, find: Callable[[Limits, Container[Choice]], Choice | None], method: str, limits: Limits, notes: list[str]
    ) -> list[Chosen]:
        """What is found, planned; where the estimate was wrong, found again with limits moved by how wrong it was.
        Of what gains more than whatever fits then, the scheme that misses least has units taken out until planning says
        that it does."""
        seen: dict[Choice, Chosen] = {}
        room = limits
        for check in range(_CHECKS):
            self.progress("choose", check, _CHECKS)
            choice = find(room, seen)
            if choice is None and not check:  # estimates may be too high where little is trained
                room = limits.shifted(*self._smallest()[0].error)
                choice = find(room, seen)
            if choice is None:
                break
            made = seen[choice] = self._planned(choice, method)
            if not limits.keeps(made.cost):
                notes.append(made.excess(limits))
            elif not made.wastes(limits):
                break
            self._learn(choice)
            room = limits.shifted(*self._planned(choice, method).error)
        most = max((made.gain for made in seen.values() if limits.keeps(made.cost)), default=0.0)
        if more := [made for made in seen.values() if made.gain > _MORE * most]:
            seen |= self._shed(min(more, key=lambda made: limits.missing(made.cost)), limits, notes)
        self.progress("choose", _CHECKS, _CHECKS)
        return list(seen.values())

    def beyond(self, limits: Limits, halvings: int = _HALVINGS) -> list[Chosen]:
        """Schemes that take more memory as they are estimated, and may keep to it in another form: so many, each
        half-way between what fits and what does not."""
        found: list[Chosen] = []
        if not self.spares or limits.memory_bytes is None:
            return found
        low, high = 1.0, self.planned.farthest
        for step in range(halvings):
            self.progress("choose", step, halvings)
            factor = (low * high) ** 0.5
            choice = self.estimate(Limits(int(limits.memory_bytes * factor), limits.step_ms))
            if choice is None:
                break
            found.append(self.made(choice, limits, "spared"))
            low, high = (factor, high) if limits.keeps(found[-1].cost) else (low, factor)
        return found

    def bound(self, limits: Limits) -> float:
        """No scheme within the limits gains more: see Chosen."""
        problem = lower([self._problem(self.space.full), *self._companies.values(), *self._before])
        far = (made for made in self._far.values() if limits.keeps(made.cost))
        errors = [made.error for made in (*self._known.values(), *far)]
        above = limits.shifted(max(0, *(nbytes for nbytes, _ in errors)), max(0.0, *(ms for _, ms in errors)))
        return solve(problem.with_limits(self._rows.limits(above)), self.seconds).bound

    def least(self) -> Cost:
        """The lowest peak and the shortest step, each of a scheme of one unit; planned."""
        return _least([made.cost for made in self._smallest()])

    def _smallest(self) -> list[Chosen]:
        """The schemes of one unit whose peak and whose step are estimated lowest, planned."""
        units = len(self.space.units)
        singles = [alone(unit, units) for unit in range(units)]
        costs = {choice: self.costs.of(choice) for choice in singles}
        smallest = min(singles, key=lambda choice: (costs[choice].peak_bytes, costs[choice].step_ms))
        quickest = min(singles, key=lambda choice: (costs[choice].step_ms, costs[choice].peak_bytes))
        return [self._planned(choice, "alone") for choice in dict.fromkeys((smallest, quickest))]

    def _solved(self, limits: Limits) -> list[Choice]:
        """What integer programming finds for each company; companies join until there are enough."""
        rows = self._rows.limits(limits)
        companies = list(self._companies) or [self.space.full]
        found: list[Choice] = []
        for company in companies:
            solution = solve(self._problem(company).with_limits(rows), self.seconds, _TOLERANCE)
            if solution.choice is None:
                continue
            found.append(solution.choice)
            if company == companies[-1] and len(companies) < _COMPANIES and solution.choice not in companies:
                companies.append(solution.choice)
        return found

    def _learn(self, choice: Choice) -> None:
        """Let the estimates learn from a scheme of which they were wrong, if they can."""
        if isinstance(self.costs, Learning):
            self.costs = self.costs.refined([choice], self.progress)
            self._rows = Rows(self.space, self.costs, self.gains, self.progress)
            self._before += self._companies.values()
            self._companies = {}
            self._known = {one: replace(made, estimated=self.costs.of(one)) for one, made in self._known.items()}

    def _problem(self, company: Choice) -> Problem:
        if company not in self._companies:
            self._companies[company] = self._rows.problem(company, Limits())
        return self._companies[company]

    def _without_least(self, choice: Choice, fits: Fits) -> Choice | None:
        """Without as few units as it takes to fit, those first that bring least for the memory they need alone; None
        where not even one of them fits."""
        full = self.costs.of(choice).peak_bytes
        saved = {}
        for unit in (place for place, option in enumerate(choice) if option):
            without = with_option(choice, unit, 0)
            saved[unit] = max(full - self.costs.of(without).peak_bytes, 1) if any(without) else 1
        order = sorted(saved, key=lambda unit: (self.gains[unit][choice[unit]] / saved[unit], unit))

        def after(count: int) -> Choice:
            gone = set(order[:count])
            return tuple(0 if unit in gone else option for unit, option in enumerate(choice))

        low, high = 1, len(order) - 1
        if high < 1 or not fits(after(high)):
            return None
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if fits(after(middle)) else (middle + 1, high)
        return after(high)

    def _grown(self, best: Chosen, limits: Limits) -> Chosen:
        """With units that fit when they are planned, whatever the estimate says; the largest gains first."""
        wide = limits.widened(_NEARLY)
        tried = 0
        for unit, option in improvements(self.gains, best.choice):
            if self.gains[unit][option] > self.gains[unit][best.choice[unit]] and tried < _TRIALS:
                more = with_option(best.choice, unit, option)
                if wide.keeps(self.costs.of(more)):
                    tried += 1
                    made = self._planned(more, best.method)
                    best = made if limits.keeps(made.cost) else best
        return best

    def _planned(self, choice: Choice, method: str) -> Chosen:
        if choice not in self._known:
            gain = self.gain(choice)
            self._known[choice] = Chosen(choice, self.planned.of(choice), self.costs.of(choice), gain, gain, method)
        return replace(self._known[choice], method=method)

    def quickest(self, choice: Choice) -> Chosen:
        """Planned in its quickest form, whether that fits or not."""
        return self._planned(choice, "usual")

    def has_form(self, choice: Choice, limits: Limits) -> bool:
        """Whether `made` is within the limits; told by fewer plans where there is no limit of time."""
        quickest, memory = self._planned(choice, "usual").cost, limits.memory_bytes
        if limits.step_ms is not None or memory is None or quickest.peak_bytes > self.planned.farthest * memory:
            return limits.keeps(self.made(choice, limits, "usual").cost)
        return limits.keeps(quickest) or self.planned.has_form(choice, memory)

    def made(self, choice: Choice, limits: Limits, method: str) -> Chosen:
        """Planned; where that does not fit, in another form that does."""
        made, memory = self._planned(choice, method), limits.memory_bytes
        if memory is None or not memory < made.cost.peak_bytes <= self.planned.farthest * memory:
            return made
        if (step := self.planned.within(choice, memory)) is None:
            return made
        self._far[choice, memory] = made.spared(step)
        return self._far[choice, memory]

    def _shed(self, made: Chosen, limits: Limits, notes: list[str]) -> dict[Choice, Chosen]:
        """The scheme without as few units as it takes to fit when it is planned; nothing where none is left."""
        less = self._without_least(made.choice, lambda choice: limits.keeps(self.planned.of(choice)))
        if less is None:
            return {}
        gone = sum(map(bool, made.choice)) - sum(map(bool, less))
        notes.append(f"{gone} parameters were taken out of a scheme until it fitted")
        return {less: self._planned(less, made.method)}

    def _single(self, limits: Limits) -> Chosen:
        """The best single unit."""
        units = sorted(range(len(self.gains)), key=lambda unit: -self.gains[unit][1])
        singles = (self.made(alone(unit, len(units)), limits, "alone") for unit in units)
        return next(made for made in singles if limits.keeps(made.cost))


def _gain(made: Chosen) -> float:
    return made.gain


def _least(costs: Sequence[Cost]) -> Cost:
    return Cost(min(one.peak_bytes for one in costs), min(one.step_ms for one in costs))
