"""What the order of the model alone says of contributions: no data are looked at."""

from __future__ import annotations

from ..space import Space
from .contributions import Gains
from .trainer import head_start


def earlier_first(space: Space) -> Gains:
    """Gains by which the head comes first, then what is earlier in the model. A share of a parameter gains that share;
    adapters gain nothing. On small networks that adapt from few samples it does as well as Fisher information
    (docs/search.md). Raises PockError for a model without weights."""
    count, head = len(space.units), head_start(space)
    rows = []
    for place, unit in enumerate(space.units):
        value = float(count) if place >= head else (count - place) / count
        rows.append(tuple(share * value for share in unit.shares) + (0.0,) * len(unit.ranks))
    return tuple(rows)
