"""What schemes take as an artifact: all of its programs, as `pock compile` plans them."""

from __future__ import annotations

from dataclasses import replace

from ...compile import Request, Scope
from ..costs import ExactCosts
from ..space import Choice


class WholeCosts(ExactCosts):
    """Plans training, evaluation and prediction of each choice, once. A training step alone can take less: where a
    normalisation is frozen in one program only, constants of both are in memory."""

    def _request(self, choice: Choice) -> Request:
        return replace(super()._request(choice), scope=Scope.ALL)
