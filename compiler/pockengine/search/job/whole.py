"""What schemes take as an artifact: all of its programs, as `pock compile` plans them."""

from __future__ import annotations

from dataclasses import replace

from ...check.speed import step_cycles
from ...compile import Scope, plan_programs, predicted_peak_bytes
from ..costs import Cost, ExactCosts
from ..space import Choice


class WholeCosts(ExactCosts):
    """Plans training, evaluation and prediction of each choice, once. A training step alone can take less: where a
    normalisation is frozen in one program only, constants of both are in memory."""

    def _cost(self, choice: Choice) -> Cost:
        planned = plan_programs(replace(self._request(choice), scope=Scope.ALL))
        return Cost(predicted_peak_bytes(planned), step_cycles(planned) / self.clock * 1e3)
