"""The whole search as one function: contributions, costs, choosing, and what came of it as plain data."""

from .api import search
from .data import checked_data, read_dataset
from .energy import Energy, read_watts
from .found import Compared, Found, LayerRow, Training, UnitRow
from .request import METHODS, SearchRequest
from .run import run

__all__ = [
    "METHODS",
    "Compared",
    "Energy",
    "Found",
    "LayerRow",
    "SearchRequest",
    "Training",
    "UnitRow",
    "checked_data",
    "read_dataset",
    "read_watts",
    "run",
    "search",
]
