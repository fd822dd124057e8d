"""Which states a federation may go through."""

from pock_server.federations.schemas import FederationState
from pock_server.federations.tables import FederationRecord
from pock_server.lifecycle import Lifecycle

_ENDS = frozenset({FederationState.FAILED, FederationState.CANCELLED})

FEDERATION_LIFECYCLE = Lifecycle(
    noun="federation",
    row_class=FederationRecord,
    transitions={
        FederationState.WAITING: frozenset({FederationState.TRAINING}) | _ENDS,
        FederationState.TRAINING: frozenset({FederationState.AGGREGATING}) | _ENDS,
        FederationState.AGGREGATING: frozenset({FederationState.WAITING, FederationState.SUCCEEDED}) | _ENDS,
        FederationState.SUCCEEDED: frozenset(),
        FederationState.FAILED: frozenset(),
        FederationState.CANCELLED: frozenset(),
    },
)

OPEN = (FederationState.WAITING, FederationState.TRAINING, FederationState.AGGREGATING)
"""States that a federation will still leave."""
