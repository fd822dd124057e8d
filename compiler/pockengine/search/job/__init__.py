"""The whole search as one function: contributions, costs, choosing, and what came of it as plain data."""

from typing import TYPE_CHECKING

from ...lazy import lazily

if TYPE_CHECKING:
    from .data import checked_data as checked_data
    from .data import read_dataset as read_dataset
    from .energy import Energy as Energy
    from .energy import read_watts as read_watts
    from .found import Compared as Compared
    from .found import Found as Found
    from .found import LayerRow as LayerRow
    from .found import Training as Training
    from .found import UnitRow as UnitRow
    from .request import METHODS as METHODS
    from .request import SearchRequest as SearchRequest
    from .running import run as run
else:
    __getattr__ = lazily(
        __name__,
        {
            "data": "checked_data read_dataset",
            "energy": "Energy read_watts",
            "found": "Compared Found LayerRow Training UnitRow",
            "request": "METHODS SearchRequest",
            "running": "run",
        },
    )
