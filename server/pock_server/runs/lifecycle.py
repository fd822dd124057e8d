"""Which states a run may go through."""

from pock_server.lifecycle import Lifecycle
from pock_server.runs.schemas import RunState
from pock_server.runs.tables import RunRecord

RUN_LIFECYCLE = Lifecycle(
    noun="run",
    row_class=RunRecord,
    transitions={
        RunState.WAITING: frozenset({RunState.QUEUED, RunState.CANCELLED, RunState.FAILED}),
        RunState.QUEUED: frozenset({RunState.LEASED, RunState.CANCELLED, RunState.FAILED}),  # failed: waited too long
        RunState.LEASED: frozenset({RunState.RUNNING, RunState.QUEUED, RunState.CANCELLED, RunState.FAILED}),
        RunState.RUNNING: frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.QUEUED}),
        RunState.SUCCEEDED: frozenset(),
        RunState.FAILED: frozenset(),
        RunState.CANCELLED: frozenset(),
    },
)

HELD = (RunState.LEASED, RunState.RUNNING)
"""States in which a device holds the run."""
OPEN = (RunState.WAITING, RunState.QUEUED, *HELD)
"""States that a run will still leave."""
