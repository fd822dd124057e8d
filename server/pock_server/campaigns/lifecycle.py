"""Which states a campaign may go through."""

from pock_server.campaigns.schemas import CampaignState, CellState
from pock_server.campaigns.tables import CampaignRecord
from pock_server.lifecycle import Lifecycle

CAMPAIGN_LIFECYCLE = Lifecycle(
    noun="campaign",
    row_class=CampaignRecord,
    transitions={
        CampaignState.RUNNING: frozenset(
            {CampaignState.PAUSED, CampaignState.STOPPING, CampaignState.SUCCEEDED, CampaignState.FAILED}
        ),
        CampaignState.PAUSED: frozenset(
            {CampaignState.RUNNING, CampaignState.STOPPING, CampaignState.SUCCEEDED, CampaignState.FAILED}
        ),
        CampaignState.STOPPING: frozenset({CampaignState.FAILED, CampaignState.CANCELLED}),
        CampaignState.SUCCEEDED: frozenset(),
        CampaignState.FAILED: frozenset(),
        CampaignState.CANCELLED: frozenset(),
    },
)

OPEN = tuple(state for state in CampaignState if state not in CAMPAIGN_LIFECYCLE.final)
"""States that a campaign will still leave."""
OPEN_CELL = (CellState.PENDING, CellState.RUNNING)
"""States of cells that have no outcome yet."""
