"""What a way to choose what is trained may look at, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.tasks.models import Model
from benchmarks.tasks.task import Split, Task, Tensors
from pockengine import Recipe
from pockengine.errors import RecipeError
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

    def fits(self, recipe: Recipe) -> bool:
        """Whether it keeps to the memory, as it is planned."""
        return self.costs.of(recipe).memory_bytes <= self.limit

    def most(self, recipes: Sequence[Callable[[], Recipe]]) -> Proposal | None:
        """The last one that fits of recipes that need more and more memory; None where not even the first does. An
        estimate says where to begin to plan."""

        def fits(place: int) -> bool:
            try:
                return self.fits(recipes[place]())
            except RecipeError:  # it trains nothing, or adapts nothing
                return True

        low, high = 0, len(recipes)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._seems_to_fit(recipes[middle]) else (low, middle)
        place = low - 1
        while place + 1 < len(recipes) and fits(place + 1):
            place += 1
        while place >= 0 and not fits(place):
            place -= 1
        for recipe in reversed(recipes[: place + 1]):
            try:
                self.fits(found := recipe())
            except RecipeError:
                continue
            return Proposal(found)
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
