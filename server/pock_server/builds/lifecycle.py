"""Which states a build may go through."""

from pock_server.builds.schemas import BuildState
from pock_server.builds.tables import BuildRecord
from pock_server.lifecycle import Lifecycle

BUILD_LIFECYCLE = Lifecycle(
    noun="build",
    row_class=BuildRecord,
    transitions={
        BuildState.QUEUED: frozenset({BuildState.RUNNING, BuildState.CANCELLED}),
        BuildState.RUNNING: frozenset(
            {BuildState.SUCCEEDED, BuildState.FAILED, BuildState.CANCELLED, BuildState.QUEUED}  # queued: runner lost
        ),
        BuildState.SUCCEEDED: frozenset(),
        BuildState.FAILED: frozenset(),
        BuildState.CANCELLED: frozenset(),
    },
)
