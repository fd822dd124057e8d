"""Which states a rollout may go through."""

from pock_server.lifecycle import Lifecycle
from pock_server.rollouts.states import RolloutState as S
from pock_server.rollouts.tables import RolloutRecord

ROLLOUT_LIFECYCLE = Lifecycle(
    noun="rollout",
    row_class=RolloutRecord,
    transitions={
        S.RUNNING: frozenset({S.PAUSED, S.STOPPED, S.SUCCEEDED, S.CANCELLED, S.REVERTING}),
        S.PAUSED: frozenset({S.RUNNING, S.STOPPED, S.CANCELLED, S.REVERTING}),
        S.STOPPED: frozenset({S.RUNNING, S.CANCELLED, S.REVERTING}),
        S.SUCCEEDED: frozenset({S.REVERTING}),
        S.REVERTING: frozenset({S.REVERTED, S.CANCELLED}),
        S.CANCELLED: frozenset(),
        S.REVERTED: frozenset(),
    },
)
UNFINISHED = (S.RUNNING, S.PAUSED, S.STOPPED, S.REVERTING)
