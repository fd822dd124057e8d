"""Queries on campaigns and their cells."""

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import ColumnElement, delete, func, or_, select
from sqlalchemy.orm import Session

from pock_server.builds.schemas import BuildState
from pock_server.builds.tables import BuildRecord
from pock_server.campaigns.lifecycle import OPEN, OPEN_CELL
from pock_server.campaigns.schemas import CellCounts, CellState
from pock_server.campaigns.tables import CampaignCellRecord, CampaignRecord
from pock_server.db.repository import Repository
from pock_server.runs.lifecycle import OPEN as OPEN_RUN
from pock_server.runs.tables import RunRecord

CELLS_AT_ONCE = 200
_ENDED = (
    CampaignCellRecord.state == CellState.RUNNING,
    or_(RunRecord.id.is_(None), RunRecord.state.not_in(OPEN_RUN)),
)


class Campaigns(Repository[CampaignRecord]):
    """The campaigns of one workspace."""

    row_class = CampaignRecord
    noun = "campaign"

    def is_open(self, schedule_id: str) -> bool:
        """Whether a campaign of this schedule is not over."""
        mine = (CampaignRecord.schedule_id == schedule_id, CampaignRecord.state.in_(OPEN))
        return self.count(*mine) > 0

    def counts(self, rows: Iterable[CampaignRecord]) -> dict[str, CellCounts]:
        """The cells of each of these campaigns, counted, by its id."""
        found: dict[str, dict[str, int]] = {row.id: dict.fromkeys(CellState, 0) for row in rows}
        cell = CampaignCellRecord
        query = select(cell.campaign_id, cell.state, func.count()).group_by(cell.campaign_id, cell.state)
        for campaign_id, state, count in self.session.execute(query.where(cell.campaign_id.in_(found))):
            found[campaign_id][state] = count
        return {row_id: CellCounts(total=sum(states.values()), **states) for row_id, states in found.items()}


class Cells:
    """The cells of one campaign."""

    def __init__(self, session: Session, campaign_id: str) -> None:
        self.session = session
        self._mine = CampaignCellRecord.campaign_id == campaign_id

    def find(self, number: int) -> CampaignCellRecord | None:
        """The cell of this number, as it is in the database."""
        query = select(CampaignCellRecord).where(self._mine, CampaignCellRecord.number == number)
        return self.session.scalars(query.execution_options(populate_existing=True)).one_or_none()

    def after(self, number: int, state: CellState | None) -> list[CampaignCellRecord]:
        """The next cells after `number`, of one state or of all, at most `CELLS_AT_ONCE`."""
        query = select(CampaignCellRecord).where(self._mine, CampaignCellRecord.number > number)
        if state is not None:
            query = query.where(CampaignCellRecord.state == state)
        return list(self.session.scalars(query.order_by(CampaignCellRecord.number).limit(CELLS_AT_ONCE)))

    def all(self) -> list[CampaignCellRecord]:
        """Every cell, in order."""
        query = select(CampaignCellRecord).where(self._mine).order_by(CampaignCellRecord.number)
        return list(self.session.scalars(query))

    def count(self, *conditions: ColumnElement[bool]) -> int:
        """How many cells meet the conditions."""
        query = select(func.count()).select_from(CampaignCellRecord).where(self._mine, *conditions)
        return self.session.scalar(query) or 0

    def ended(self, limit: int) -> list[tuple[CampaignCellRecord, RunRecord | None]]:
        """The first running cells whose run is over, with it, or with None if it was deleted. A run's report may have
        megabytes."""
        query = select(CampaignCellRecord, RunRecord).outerjoin(RunRecord, RunRecord.id == CampaignCellRecord.run_id)
        query = query.where(self._mine, *_ENDED).order_by(CampaignCellRecord.number).limit(limit)
        return [(cell, run) for cell, run in self.session.execute(query)]

    def some_ended(self) -> bool:
        """Whether there is one."""
        query = select(CampaignCellRecord.number).outerjoin(RunRecord, RunRecord.id == CampaignCellRecord.run_id)
        return self.session.scalar(query.where(self._mine, *_ENDED).limit(1)) is not None

    def buildless(self) -> list[tuple[CampaignCellRecord, BuildRecord | None]]:
        """Pending cells whose build came to nothing, with it, or with None if it was deleted."""
        lost = (BuildState.FAILED, BuildState.CANCELLED)
        query = (
            select(CampaignCellRecord, BuildRecord)
            .outerjoin(BuildRecord, BuildRecord.id == CampaignCellRecord.build_id)
            .where(self._mine, CampaignCellRecord.state == CellState.PENDING)
            .where(or_(BuildRecord.id.is_(None), BuildRecord.state.in_(lost)))
            .order_by(CampaignCellRecord.number)
        )
        return [(cell, build) for cell, build in self.session.execute(query)]

    def ready(self, per_device: int, limit: int, canaries: bool) -> list[int]:
        """Numbers of the pending cells to begin next: their build is there, their device has room. `canaries`: only
        theirs."""
        cell = CampaignCellRecord
        busy = select(cell.device_id).where(self._mine, cell.state == CellState.RUNNING)
        busy = busy.group_by(cell.device_id).having(func.count() >= per_device)
        query = (
            select(cell.number)
            .join(BuildRecord, BuildRecord.id == cell.build_id)
            .where(self._mine, cell.state == CellState.PENDING, BuildRecord.state == BuildState.SUCCEEDED)
            .where(cell.device_id.not_in(busy))
        )
        if canaries:
            query = query.where(cell.canary.is_(True))
        return list(self.session.scalars(query.order_by(cell.number).limit(limit)))

    def open_runs(self) -> list[str]:
        """Ids of the runs that are not over."""
        query = select(CampaignCellRecord.run_id).join(RunRecord, RunRecord.id == CampaignCellRecord.run_id)
        query = query.where(self._mine, CampaignCellRecord.state == CellState.RUNNING, RunRecord.state.in_(OPEN_RUN))
        return [run_id for run_id in self.session.scalars(query) if run_id is not None]

    def open_count(self) -> int:
        """Cells that have no outcome yet."""
        return self.count(CampaignCellRecord.state.in_(OPEN_CELL))

    def forget(self) -> None:
        """Delete all of them."""
        self.session.execute(delete(CampaignCellRecord).where(self._mine))


def open_campaigns(session: Session, _now: datetime) -> list[tuple[str, str]]:
    """Campaigns of all workspaces that are not over."""
    query = select(CampaignRecord.workspace_id, CampaignRecord.id).where(CampaignRecord.state.in_(OPEN))
    return [(workspace_id, row_id) for workspace_id, row_id in session.execute(query.order_by(CampaignRecord.id))]
