"""The fleet over HTTP, for people."""

from fastapi import APIRouter

from pock_server.dependencies import DeviceAdmin, Reader, ServicesDep
from pock_server.devices import service
from pock_server.devices.repository import Devices
from pock_server.devices.schemas import DeviceOut, DevicePage, TokenCreated, TokenIn
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
def list_devices(caller: Reader, page: PageQuery, services: ServicesDep) -> DevicePage:
    """List devices."""
    with services.database.read() as session:
        found = Devices(session, caller.workspace_id).page(page)
        now, heartbeat = services.clock.now(), services.fleet.heartbeat_seconds()
        items = [service.describe(row, now, heartbeat) for row in found.rows]
        return DevicePage(items=items, next_cursor=found.next_cursor)


@router.get("/devices/{device_id}")
def get_device(device_id: Id, caller: Reader, services: ServicesDep) -> DeviceOut:
    """One device."""
    with services.database.read() as session:
        row = Devices(session, caller.workspace_id).require(device_id)
        heartbeat = services.fleet.heartbeat_seconds()
        return service.describe(row, services.clock.now(), heartbeat)


@router.delete("/devices/{device_id}", status_code=204)
def revoke_device(device_id: Id, caller: DeviceAdmin, services: ServicesDep) -> None:
    """Revoke a device: its session ends at once and its open runs fail."""
    with services.database.write(caller.actor) as unit:
        now = services.clock.now()
        device = service.revoke(unit, Devices(unit.session, caller.workspace_id), device_id, now)
        release_device(unit, device, now)
