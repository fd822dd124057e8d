"""Makes, shows, pauses and ends campaigns."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from pock_server.audit.service import Action, changed, gone, made, record
from pock_server.builds.repository import Builds
from pock_server.builds.schemas import BuildIn, BuildState, FailureOut
from pock_server.builds.service import request_build
from pock_server.builds.tables import BuildRecord
from pock_server.campaigns.advancing import announce_progress, stop
from pock_server.campaigns.cells import expand, missing_targets
from pock_server.campaigns.lifecycle import CAMPAIGN_LIFECYCLE
from pock_server.campaigns.repository import Campaigns, Cells
from pock_server.campaigns.schemas import MAX_CELLS, CampaignIn, CampaignOut, CampaignState, CellOut, CellState
from pock_server.campaigns.tables import CampaignCellRecord, CampaignRecord
from pock_server.clock import new_id
from pock_server.datasets.repository import Datasets
from pock_server.db.unit import Unit
from pock_server.devices.presence import heard_since
from pock_server.devices.repository import Devices
from pock_server.devices.selectors.conditions import conditions
from pock_server.devices.selectors.grammar import BadSelector, parse
from pock_server.devices.states import DeviceStatus
from pock_server.devices.tables import DeviceRecord
from pock_server.events.repository import Events
from pock_server.http.problems import Failure, Problem
from pock_server.hub import DUTIES_TOPIC
from pock_server.models.repository import Models
from pock_server.observing.context import request_id, traceparent
from pock_server.quotas.service import Quota, check
from pock_server.recipes.repository import Recipes
from pock_server.runs.service import require_fitting
from pock_server.services import Services
from pock_server.settings import Settings
from pock_server.targets.service import Compiler


@dataclass(frozen=True)
class Circumstances:
    """What a new campaign depends on beside the rows; found out before its transaction begins."""

    settings: Settings
    heard_since: datetime
    """Devices that were seen since then are there, and begin first."""
    compiler: Compiler | None
    """None where nothing is to be built."""


def circumstances(services: Services, order: CampaignIn) -> Circumstances:
    """As they are now."""
    since = heard_since(services.clock.now(), services.fleet.heartbeat_seconds())
    return Circumstances(services.settings, since, services.compiler.load() if order.model_id else None)


def create_campaign(
    unit: Unit,
    workspace_id: str,
    order: CampaignIn,
    around: Circumstances,
    now: datetime,
    schedule_id: str | None = None,
) -> CampaignRecord:
    """Begin a campaign; a `Problem` says why it cannot be."""
    require_ingredients(unit.session, workspace_id, order)
    builds = _builds(unit, workspace_id, order, around.compiler, now)
    datasets = (order.dataset_id, order.eval_dataset_id)
    for build in builds:
        if build.state == BuildState.SUCCEEDED:
            require_fitting(unit.session, build, datasets)
    devices = _devices(unit, workspace_id, order, around.heard_since)
    row = CampaignRecord(
        id=new_id(now),
        workspace_id=workspace_id,
        created_at=now,
        name=order.name,
        wanted=order.model_dump(mode="json"),
        build_ids=[build.id for build in builds],
        missing_targets=missing_targets(builds, devices),
        schedule_id=schedule_id,
        ends_at=now + timedelta(seconds=order.deadline_seconds) if order.deadline_seconds else None,
        state=CampaignState.RUNNING,
        started_at=now,
        request_id=request_id(),
        traceparent=traceparent(),
        attempt=1,
    )
    cells = expand(row.id, order, builds, devices)
    Campaigns(unit.session, workspace_id).add(row)
    unit.session.add_all(cells)
    unit.session.flush()
    quotas = (Quota.CAMPAIGNS, Quota.BUILDS, Quota.BYTES) if order.model_id else (Quota.CAMPAIGNS,)
    check(unit, around.settings, workspace_id, now, *quotas)
    Events(unit.session, workspace_id).append(row.id, "state", {"state": row.state}, now)
    announce_progress(unit, row, now)
    record(unit, Action.CAMPAIGN_CREATE, row, row.name, now, made(on=order.on, cells=len(cells)))
    unit.announce(DUTIES_TOPIC)
    return row


def require_ingredients(session: Session, workspace_id: str, order: CampaignIn) -> None:
    """Raise a 404 `Problem` unless the workspace has what the order names."""
    for build_id in order.build_ids:
        Builds(session, workspace_id).require(build_id)
    for recipe_id in order.recipe_ids:
        Recipes(session, workspace_id).require(recipe_id)
    if order.model_id is not None:
        Models(session, workspace_id).require(order.model_id)
    for dataset_id in filter(None, (order.dataset_id, order.eval_dataset_id)):
        Datasets(session, workspace_id).require(dataset_id)


def _builds(
    unit: Unit, workspace_id: str, order: CampaignIn, compiler: Compiler | None, now: datetime
) -> list[BuildRecord]:
    if order.model_id is not None and compiler is not None:
        wanted = [
            BuildIn(model_id=order.model_id, recipe_id=recipe_id, target=target)
            for recipe_id in order.recipe_ids
            for target in order.targets
        ]
        made_now = [request_build(unit, workspace_id, one, None, compiler, now).row for one in wanted]
        return list({row.id: row for row in made_now}.values())
    builds = [Builds(unit.session, workspace_id).require(build_id) for build_id in order.build_ids]
    for build in builds:
        if build.state in (BuildState.FAILED, BuildState.CANCELLED):
            raise Problem(Failure.STATE_CONFLICT, f"Build {build.name} is {build.state}; request it again.")
    return builds


def _devices(unit: Unit, workspace_id: str, order: CampaignIn, since: datetime) -> list[DeviceRecord]:
    """The active devices that the order chooses: those first that keep the data that it names, and of them those that
    are there. Raises a 422 `Problem` if one that it lists is not among them, a 409 one if no device keeps the data."""
    try:
        chosen = tuple(conditions(parse(order.on), since))
    except BadSelector as error:
        raise Problem(Failure.INVALID, f"body.on: {error}.") from None
    query = Devices(unit.session, workspace_id).select()
    query = query.where(*chosen, DeviceRecord.status == DeviceStatus.ACTIVE).limit(MAX_CELLS + 1)
    if order.device_ids:
        query = query.where(DeviceRecord.id.in_(order.device_ids))
    devices = list(unit.session.scalars(query.order_by(DeviceRecord.name, DeviceRecord.id)))
    lost = sorted({*order.device_ids} - {one.id for one in devices})
    if lost:
        detail = f"{len(lost)} of these are no active devices that {order.on!r} chooses; the first is {lost[0]}."
        raise Problem(Failure.INVALID, f"body.device_ids: {detail}")
    ready = {one.id for one in devices}
    names = [name for name in (order.dataset_name, order.eval_dataset_name) if name is not None]
    for name in names:
        ready &= Datasets(unit.session, workspace_id).keepers(name)
    if devices and not ready:
        wanted = " and ".join(map(repr, dict.fromkeys(names)))
        detail = f"No device that {order.on!r} chooses keeps data named {wanted}; pock-agent data add names some."
        raise Problem(Failure.STATE_CONFLICT, detail)
    away = {one.id for one in devices if one.last_seen_at is None or one.last_seen_at < since}
    return sorted(devices, key=lambda one: (one.id not in ready, one.id in away))


def pause(unit: Unit, workspace_id: str, campaign_id: str, now: datetime) -> CampaignRecord:
    """Ask for no further runs; those that were asked for go on. Pausing twice changes nothing."""
    return _move(unit, workspace_id, campaign_id, CampaignState.PAUSED, now)


def resume(unit: Unit, workspace_id: str, campaign_id: str, now: datetime) -> CampaignRecord:
    """Go on after a pause. Resuming twice changes nothing."""
    return _move(unit, workspace_id, campaign_id, CampaignState.RUNNING, now)


def _move(unit: Unit, workspace_id: str, campaign_id: str, to: CampaignState, now: datetime) -> CampaignRecord:
    row = Campaigns(unit.session, workspace_id).require(campaign_id, lock=True)
    if row.state != to:
        before = row.state
        CAMPAIGN_LIFECYCLE.move(unit, row, to, now)
        action = Action.CAMPAIGN_PAUSE if to is CampaignState.PAUSED else Action.CAMPAIGN_RESUME
        record(unit, action, row, row.name, now, changed({"state": before}, {"state": row.state}))
        unit.announce(DUTIES_TOPIC)
    return row


def cancel(unit: Unit, workspace_id: str, campaign_id: str, now: datetime) -> CampaignRecord:
    """End a campaign that is not over: its open runs are cancelled. Cancelling twice changes nothing."""
    row = Campaigns(unit.session, workspace_id).require(campaign_id, lock=True)
    if CampaignState.CANCELLED not in (row.state, row.ending):
        before = row.state
        stop(unit, row, CampaignState.CANCELLED, None, now)
        record(unit, Action.CAMPAIGN_CANCEL, row, row.name, now, changed({"state": before}, {"state": row.state}))
        unit.announce(DUTIES_TOPIC)
    return row


def delete_campaign(unit: Unit, workspace_id: str, campaign_id: str, now: datetime) -> None:
    """Forget a campaign that is over, and its cells; its runs stay. A 409 `Problem` if it is not over."""
    row = Campaigns(unit.session, workspace_id).require(campaign_id, lock=True)
    if row.state not in CAMPAIGN_LIFECYCLE.final:
        raise Problem(Failure.STATE_CONFLICT, f"This campaign is {row.state}; cancel it first.")
    record(unit, Action.CAMPAIGN_DELETE, row, row.name, now, gone(state=row.state))
    Cells(unit.session, row.id).forget()
    Events(unit.session, workspace_id).forget(row.id)
    unit.session.delete(row)


def show(campaigns: Campaigns, rows: Sequence[CampaignRecord]) -> list[CampaignOut]:
    """Campaigns as the API shows them."""
    counts = campaigns.counts(rows)
    return [
        CampaignOut(
            id=row.id,
            name=row.name,
            state=CampaignState(row.state),
            order=CampaignIn.model_validate(row.wanted),
            build_ids=row.build_ids,
            cells=counts[row.id],
            missing_targets=row.missing_targets,
            canary_ended_at=row.canary_ended_at,
            schedule_id=row.schedule_id,
            failure=FailureOut(**row.failure) if row.failure else None,
            created_at=row.created_at,
            ends_at=row.ends_at,
            finished_at=row.finished_at,
        )
        for row in rows
    ]


def show_cell(cell: CampaignCellRecord) -> CellOut:
    """A cell as the API shows it."""
    return CellOut(
        number=cell.number,
        build_id=cell.build_id,
        device_id=cell.device_id,
        device_name=cell.device_name,
        target=cell.target,
        seed=cell.seed,
        canary=cell.canary,
        state=CellState(cell.state),
        run_id=cell.run_id,
        failure=FailureOut(**cell.failure) if cell.failure else None,
        finished_at=cell.finished_at,
    )
