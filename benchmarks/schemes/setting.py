"""What a way to choose what is trained may look at, and what it answers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from benchmarks.tasks.models import Model
from benchmarks.tasks.task import Split, Task, Tensors
from pockengine import Recipe
from pockengine.errors import MemoryBudgetError, RecipeError
from pockengine.recipe import resolve
from pockengine.search import Space

from .costs import Costs
from .searching import Searching
from .store import Result


@dataclass(frozen=True)
class Proposal:
    """A scheme, and what is known of how it was chosen."""

    recipe: Recipe
    about: Result = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Setting:
    """What a method may look at.

    space      of the model, with the weights where training begins
    share      of the memory that full takes beyond the head; a scheme may take that, and what the head takes
    task       that the model is adapted to; samples: those it may train on; weights: where training begins
    searching  what the searches of the model share"""

    model: Model
    space: Space
    costs: Costs
    share: float
    task: Task
    samples: Split
    weights: Tensors
    searching: Searching

    @property
    def limit(self) -> int:
        """Bytes that a scheme may take, without the program itself."""
        return self.costs.limit(self.share)

    def fits(self, recipe: Recipe, limit: int | None = None) -> bool:
        """Whether it keeps to the memory, as it is planned."""
        try:
            return self.costs.of(recipe).memory_bytes <= (self.limit if limit is None else limit)
        except MemoryBudgetError:
            return False

    def recomputing(self, recipe: Recipe, limit: int | None = None) -> Recipe:
        """The same, with forward nodes computed twice where that keeps it to the memory."""
        return recipe.with_(memory=self.costs.allowed(self.limit if limit is None else limit, recipe.batch))

    def most_recomputing(self, recipes: Sequence[Callable[[], Recipe]]) -> Proposal | None:
        """The last one that fits of recipes that need more and more memory, where nodes may be computed twice; None
        where not even the first does, or where all do without that."""
        twice = [partial(self._twice, recipe) for recipe in recipes]
        if (least := self._first_above(recipes)) == len(recipes):
            return None
        count = bisect_left(twice, True, least, key=lambda recipe: not self._fits_or_trains_nothing(recipe))
        return self._last_of(twice[:count])

    def _twice(self, recipe: Callable[[], Recipe]) -> Recipe:
        return self.recomputing(recipe())

    def most(self, recipes: Sequence[Callable[[], Recipe]]) -> Proposal | None:
        """The last one that fits of recipes that need more and more memory; None where not even the first does. An
        estimate says where to begin to plan."""
        place = self._first_above(recipes) - 1
        while place + 1 < len(recipes) and self._fits_or_trains_nothing(recipes[place + 1]):
            place += 1
        while place >= 0 and not self._fits_or_trains_nothing(recipes[place]):
            place -= 1
        return self._last_of(recipes[: place + 1])

    def _fits_or_trains_nothing(self, recipe: Callable[[], Recipe]) -> bool:
        try:
            return self.fits(recipe())
        except RecipeError:  # it trains nothing, or adapts nothing
            return True

    def _first_above(self, recipes: Sequence[Callable[[], Recipe]]) -> int:
        """The place of the first recipe that is too much, by estimate."""
        return bisect_left(recipes, True, key=lambda recipe: not self._seems_to_fit(recipe))

    def _last_of(self, recipes: Sequence[Callable[[], Recipe]]) -> Proposal | None:
        """The last one that fits."""
        for recipe in reversed(recipes):
            try:
                if self.fits(found := recipe()):
                    return Proposal(found)
            except RecipeError:
                continue
        return None

    def _seems_to_fit(self, recipe: Callable[[], Recipe]) -> bool:
        """By estimate; what has adapters is planned."""
        try:
            if (said := recipe()).lora is not None:
                return self.fits(said)
            choice = self.space.choice_of(resolve(said, self.space.graph))
            whole = self.limit + self.costs.program_bytes
            return not any(choice) or self.searching.estimates.of(choice).peak_bytes <= whole
        except RecipeError:
            return True
