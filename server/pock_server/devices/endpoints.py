"""The fleet over HTTP, for people."""

from typing import Annotated

from fastapi import APIRouter, Query

from pock_server.dependencies import DeviceAdmin, Reader, ServicesDep
from pock_server.devices import service
from pock_server.devices.lists.asked import AskedQuery
from pock_server.devices.lists.orders import OrderQuery, ordered_page
from pock_server.devices.lists.totals import totals
from pock_server.devices.presence import heard_since
from pock_server.devices.repository import Devices
from pock_server.devices.schemas import DeviceChange, DeviceOut, DevicePage, DeviceTotals, TokenCreated, TokenIn
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS
from pock_server.quotas.service import Quota, check
from pock_server.runs.leases import release_device

router = APIRouter(tags=["devices"], responses=PROBLEMS)


@router.post("/enrollment-tokens", status_code=201)
def create_enrollment_token(body: TokenIn, caller: DeviceAdmin, services: ServicesDep) -> TokenCreated:
    """Make a one-off token that lets one device in."""
    with services.database.write(caller.actor) as unit:
        made = service.create_token(unit, caller.workspace_id, body, services.clock.now())
        check(unit, services.settings, caller.workspace_id, services.clock.now(), Quota.TOKENS)
        return made


@router.get("/devices")
def list_devices(
    caller: Reader,
    services: ServicesDep,
    page: PageQuery,
    wanted: AskedQuery,
    order: OrderQuery,
    facts: Annotated[bool, Query(description="False: leave their facts out, for long lists.")] = True,
) -> DevicePage:
    """List devices; with a selector, those that it chooses and that were not revoked, unless it names states."""
    since = heard_since(services.clock.now(), services.fleet.heartbeat_seconds())
    chosen = tuple(wanted.filters(since))
    with services.database.read() as session:
        devices = Devices(session, caller.workspace_id)
        found, total = ordered_page(devices, page, order, since, chosen), devices.count(*chosen)
        items = service.show(session, found.rows, since, facts=facts)
        return DevicePage(items=items, next_cursor=found.next_cursor, total=total)


@router.get("/device-totals")
def count_devices(caller: Reader, services: ServicesDep, wanted: AskedQuery) -> DeviceTotals:
    """Count devices, all or those that are asked for as of their list."""
    since = heard_since(services.clock.now(), services.fleet.heartbeat_seconds())
    with services.database.read() as session:
        return totals(Devices(session, caller.workspace_id), since, wanted.filters(since))


@router.get("/devices/{device_id}")
def get_device(device_id: Id, caller: Reader, services: ServicesDep) -> DeviceOut:
    """One device."""
    since = heard_since(services.clock.now(), services.fleet.heartbeat_seconds())
    with services.database.read() as session:
        (shown,) = service.show(session, [Devices(session, caller.workspace_id).require(device_id)], since)
        return shown


@router.patch("/devices/{device_id}")
def change_device(device_id: Id, body: DeviceChange, caller: DeviceAdmin, services: ServicesDep) -> DeviceOut:
    """Rename a device, put it into another pool, or change its labels."""
    now = services.clock.now()
    since = heard_since(now, services.fleet.heartbeat_seconds())
    with services.database.write(caller.actor) as unit:
        row = service.change_device(unit, Devices(unit.session, caller.workspace_id), device_id, body, now)
        (shown,) = service.show(unit.session, [row], since)
        return shown


@router.delete("/devices/{device_id}", status_code=204)
def revoke_device(device_id: Id, caller: DeviceAdmin, services: ServicesDep) -> None:
    """Revoke a device: its session ends at once and its open runs fail."""
    with services.database.write(caller.actor) as unit:
        now = services.clock.now()
        device = service.revoke(unit, Devices(unit.session, caller.workspace_id), device_id, now)
        release_device(unit, device, now)
