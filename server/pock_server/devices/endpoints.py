"""The fleet over HTTP, for people."""

from typing import Annotated

from fastapi import APIRouter, Query

from pock_server.dependencies import DeviceAdmin, Reader, ServicesDep
from pock_server.devices import service
from pock_server.devices.labels import labels_of
from pock_server.devices.presence import heard_since
from pock_server.devices.repository import Devices
from pock_server.devices.schemas import DeviceChange, DeviceOut, DevicePage, TokenCreated, TokenIn
from pock_server.devices.selectors.conditions import conditions
from pock_server.devices.selectors.grammar import MAX_CHARACTERS, BadSelector, parse
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS, Failure, Problem
from pock_server.quotas.service import Quota, check
from pock_server.runs.leases import release_device

router = APIRouter(tags=["devices"], responses=PROBLEMS)

Selector = Annotated[
    str | None,
    Query(
        max_length=MAX_CHARACTERS,
        description="Those that a selector chooses, such as `pool=kitchen,ram>=2GiB,room!=attic,pi-*`.",
    ),
]


@router.post("/enrollment-tokens", status_code=201)
def create_enrollment_token(body: TokenIn, caller: DeviceAdmin, services: ServicesDep) -> TokenCreated:
    """Make a one-off token that lets one device in."""
    with services.database.write(caller.actor) as unit:
        made = service.create_token(unit, caller.workspace_id, body, services.clock.now())
        check(unit, services.settings, caller.workspace_id, services.clock.now(), Quota.TOKENS)
        return made


@router.get("/devices")
def list_devices(caller: Reader, page: PageQuery, services: ServicesDep, on: Selector = None) -> DevicePage:
    """List devices; with a selector, those that it chooses and that were not revoked, unless it names states."""
    since = heard_since(services.clock.now(), services.fleet.heartbeat_seconds())
    try:
        chosen = () if on is None else tuple(conditions(parse(on), since))
    except BadSelector as error:
        raise Problem(Failure.INVALID, f"query.on: {error}.") from None
    with services.database.read() as session:
        devices = Devices(session, caller.workspace_id)
        found, total = devices.page(page, *chosen), devices.count(*chosen)
        labels = labels_of(session, found.rows)
        items = [service.describe(row, labels[row.id], since) for row in found.rows]
        return DevicePage(items=items, next_cursor=found.next_cursor, total=total)


@router.get("/devices/{device_id}")
def get_device(device_id: Id, caller: Reader, services: ServicesDep) -> DeviceOut:
    """One device."""
    since = heard_since(services.clock.now(), services.fleet.heartbeat_seconds())
    with services.database.read() as session:
        row = Devices(session, caller.workspace_id).require(device_id)
        return service.describe(row, labels_of(session, [row])[row.id], since)


@router.patch("/devices/{device_id}")
def change_device(device_id: Id, body: DeviceChange, caller: DeviceAdmin, services: ServicesDep) -> DeviceOut:
    """Rename a device, put it into another pool, or change its labels."""
    now = services.clock.now()
    since = heard_since(now, services.fleet.heartbeat_seconds())
    with services.database.write(caller.actor) as unit:
        row = service.change_device(unit, Devices(unit.session, caller.workspace_id), device_id, body, now)
        return service.describe(row, labels_of(unit.session, [row])[row.id], since)


@router.delete("/devices/{device_id}", status_code=204)
def revoke_device(device_id: Id, caller: DeviceAdmin, services: ServicesDep) -> None:
    """Revoke a device: its session ends at once and its open runs fail."""
    with services.database.write(caller.actor) as unit:
        now = services.clock.now()
        device = service.revoke(unit, Devices(unit.session, caller.workspace_id), device_id, now)
        release_device(unit, device, now)
