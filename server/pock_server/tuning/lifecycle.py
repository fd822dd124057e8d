"""Which states a tuning may go through."""

from enum import StrEnum

from pock_server.lifecycle import Lifecycle
from pock_server.tuning.tables import TuningRecord


class TuningState(StrEnum):
    """Where a tuning stands."""

    BUILDING = "building"
    """A pack of trials is wanted or being built."""
    MEASURING = "measuring"
    """Devices run the pack."""
    SUCCEEDED = "succeeded"
    """All workloads were tried, as far as devices came."""
    FAILED = "failed"
    """A pack could not be built."""
    CANCELLED = "cancelled"
    """Somebody stopped it; what was decided stays."""


OPEN_TUNINGS = (TuningState.BUILDING, TuningState.MEASURING)
_ENDS = frozenset({TuningState.SUCCEEDED, TuningState.FAILED, TuningState.CANCELLED})
TUNING_LIFECYCLE = Lifecycle(
    noun="tuning",
    row_class=TuningRecord,
    transitions={
        TuningState.BUILDING: _ENDS | {TuningState.MEASURING},
        TuningState.MEASURING: _ENDS | {TuningState.BUILDING},
        TuningState.SUCCEEDED: frozenset(),
        TuningState.FAILED: frozenset(),
        TuningState.CANCELLED: frozenset(),
    },
)
