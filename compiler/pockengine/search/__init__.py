"""Which parameters to train under a limit of memory and time: contributions, costs, and the search among schemes."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .costs import Cost as Cost
    from .costs import CostModel as CostModel
    from .costs import Costs as Costs
    from .costs import ExactCosts as ExactCosts
    from .sampling import random_choices as random_choices
    from .space import SHARES as SHARES
    from .space import Choice as Choice
    from .space import Importance as Importance
    from .space import Space as Space
    from .space import Unit as Unit
else:
    __getattr__ = lazily(
        __name__,
        {
            "costs": "Cost CostModel Costs ExactCosts",
            "sampling": "random_choices",
            "space": "SHARES Choice Importance Space Unit",
        },
    )
