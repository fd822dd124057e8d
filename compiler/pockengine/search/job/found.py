"""What a search found, as plain data that a file can hold and a report can show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..choosing import Chosen, Limits, Point
from ..costs import Cost
from ..rates import Rates
from ..space import Choice
from .energy import Energy

AT_RATES = "rates"
"""The name among the compared schemes of the found one, trained at the learning rates that were found for it."""


GAINS, ONCE, EARLIER = "gains", "once", "earlier"
"""The names of what is tried beside usual schemes: of the largest gain; of that in the quickest steps; and what
is earliest in the model."""


@dataclass(frozen=True)
class UnitRow:
    """Why one parameter is in or out.

    option  what is chosen among its shares and the ranks of its adapters; 0: frozen
    gains   of each option"""

    name: str
    module: str
    shape: tuple[int, ...]
    shares: tuple[float, ...]
    option: int
    gains: tuple[float, ...]
    ranks: tuple[int, ...] = ()

    @property
    def gain(self) -> float:
        """Of what is chosen, or of what is best where it is frozen."""
        return self.gains[self.option] if self.option else max(self.gains)

    @property
    def share(self) -> float:
        """What is trained of the parameter itself."""
        return self.shares[self.option] if self.option < len(self.shares) else 0.0

    @property
    def rank(self) -> int:
        """Of its adapter; 0 where it has none."""
        return self.ranks[self.option - len(self.shares)] if self.option >= len(self.shares) else 0


@dataclass(frozen=True)
class LayerRow:
    """What one layer takes, estimated.

    added_bytes  what its trained parameters add to the peak beside the rest of the scheme; of a layer that is frozen,
                 what it would add, each parameter at the share that brings most
    added_ms     the same of a step's time"""

    name: str
    added_bytes: int
    added_ms: float


@dataclass(frozen=True)
class Training:
    """One short training of a scheme: the share of held-out samples that is right (None where the loss knows no right),
    and their loss (None where it diverged)."""

    seed: int
    accuracy: float | None
    loss: float | None


@dataclass(frozen=True)
class Compared:
    """A scheme beside others.

    cost     as planned
    gain     if gains add
    numbers  how many are trained
    trained  its short trainings, where there were some
    loss     of the samples kept back, at the best learning rates of those tried, where it was tried"""

    name: str
    choice: Choice
    cost: Cost
    gain: float
    numbers: int
    trained: tuple[Training, ...] = ()
    loss: float | None = None

    @property
    def accuracy(self) -> float | None:
        """The mean over its trainings."""
        known = [one.accuracy for one in self.trained if one.accuracy is not None]
        return sum(known) / len(known) if known else None


@dataclass(frozen=True)
class Found:
    """The result of a search.

    model        its name
    target       what it is for
    threads      that a step takes there
    limits       that it keeps
    method       how contributions were found
    provenance   how exactly
    prefer       which scheme of the front was taken
    seed         of all that was drawn
    recipe       the text of a recipe file
    chosen       the scheme
    units        every parameter, in model order
    layers       the modules that they belong to
    front        what no other scheme found beats, by ascending memory
    compared     the found scheme and usual ones, planned
    seconds      stage -> what it took
    energy       what the device draws, and the limit of a step's energy, where it was said
    rates        the learning rates, where they were looked for"""

    model: str
    target: str
    threads: int
    limits: Limits
    method: str
    provenance: Mapping[str, Any]
    prefer: str
    seed: int
    recipe: str
    chosen: Chosen
    units: tuple[UnitRow, ...]
    layers: tuple[LayerRow, ...]
    front: tuple[Point, ...]
    compared: tuple[Compared, ...]
    seconds: Mapping[str, float]
    energy: Energy | None = None
    rates: Rates | None = None

    def of(self, name: str) -> Compared | None:
        """One of the compared schemes."""
        return next((one for one in self.compared if one.name == name), None)

    def to_mapping(self) -> dict[str, Any]:
        """Plain values: what `--json` prints."""
        mapping = {one.name: getattr(self, one.name) for one in fields(self)}
        mapping |= {"gap": self.chosen.gap, "provenance": dict(self.provenance), "seconds": dict(self.seconds)}
        for name in ("limits", "chosen"):
            mapping[name] = asdict(mapping[name])
        for name in ("rates", "energy"):
            mapping[name] = None if mapping[name] is None else asdict(mapping[name])
        for name in ("units", "layers", "front", "compared"):
            mapping[name] = [asdict(one) for one in mapping[name]]
        return mapping

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Found:
        """From what `to_mapping` gave, through JSON. Raises KeyError or TypeError where it is something else."""
        given = {one.name: mapping[one.name] for one in fields(cls)}
        given["limits"] = Limits(**given["limits"])
        given["chosen"] = Chosen(**_scheme(given["chosen"]))
        given["units"] = tuple(UnitRow(**_tuples(row, "shape", "shares", "gains", "ranks")) for row in given["units"])
        given["layers"] = tuple(LayerRow(**row) for row in given["layers"])
        given["front"] = tuple(Point(**_scheme(row)) for row in given["front"])
        given["compared"] = tuple(_compared(row) for row in given["compared"])
        given["energy"] = None if given["energy"] is None else Energy(**given["energy"])
        given["rates"] = None if given["rates"] is None else Rates.from_mapping(given["rates"])
        return cls(**given)


def _tuples(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {**row, **{name: tuple(row[name]) for name in names}}


def _scheme(row: Mapping[str, Any]) -> dict[str, Any]:
    """Choice, costs and notes as values of their types."""
    given = _tuples(row, *(name for name in ("choice", "notes") if name in row))
    return {**given, **{name: Cost(**row[name]) for name in ("cost", "estimated") if name in row}}


def _compared(row: Mapping[str, Any]) -> Compared:
    return Compared(**{**_scheme(row), "trained": tuple(Training(**one) for one in row["trained"])})
