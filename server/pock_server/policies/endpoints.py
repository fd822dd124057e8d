"""Policies over HTTP, for people."""

from typing import Annotated

from fastapi import APIRouter, Query

from pock_server.dependencies import DeviceAdmin, Reader, ServicesDep
from pock_server.devices.repository import Devices
from pock_server.http.fields import Id, Name
from pock_server.http.problems import PROBLEMS
from pock_server.policies import service
from pock_server.policies.repository import Policies
from pock_server.policies.schemas import DevicePolicyOut, Policy, PoolPolicyOut, Version

router = APIRouter(tags=["policies"], responses=PROBLEMS)

Pool = Annotated[Name, Query(description="Name of the pool, which may be any, with slashes and dots.")]
Expected = Annotated[
    Version | None,
    Query(description='Version of the rules that this is to replace, "none" for none; refused if they are others.'),
]


@router.get("/devices/{device_id}/policy")
def get_device_policy(device_id: Id, caller: Reader, services: ServicesDep) -> DevicePolicyOut:
    """When a device may work: its own policy and its pool's."""
    with services.database.read() as session:
        device = Devices(session, caller.workspace_id).require(device_id)
        return service.show_device(Policies(session, caller.workspace_id), device)


@router.put("/devices/{device_id}/policy")
def set_device_policy(
    device_id: Id, body: Policy, caller: DeviceAdmin, services: ServicesDep, expected: Expected = None
) -> DevicePolicyOut:
    """Set a device's own policy, in place of the one before; its owner's word on the device stays stronger."""
    with services.database.write(caller.actor) as unit:
        device = service.set_device(
            unit, caller.workspace_id, device_id, service.Order(body, expected), services.clock.now()
        )
        return service.show_device(Policies(unit.session, caller.workspace_id), device)


@router.delete("/devices/{device_id}/policy", status_code=204)
def remove_device_policy(device_id: Id, caller: DeviceAdmin, services: ServicesDep, expected: Expected = None) -> None:
    """Take a device's own policy away."""
    with services.database.write(caller.actor) as unit:
        service.remove_device(unit, caller.workspace_id, device_id, expected, services.clock.now())


@router.get("/pools/policy")
def get_pool_policy(pool: Pool, caller: Reader, services: ServicesDep) -> PoolPolicyOut:
    """When the devices of a pool may work."""
    with services.database.read() as session:
        return service.show_pool(Policies(session, caller.workspace_id), pool)


@router.put("/pools/policy")
def set_pool_policy(
    pool: Pool, body: Policy, caller: DeviceAdmin, services: ServicesDep, expected: Expected = None
) -> PoolPolicyOut:
    """Set the policy of a pool's devices, in place of the one before."""
    with services.database.write(caller.actor) as unit:
        return service.set_pool(unit, caller.workspace_id, pool, service.Order(body, expected), services.clock.now())


@router.delete("/pools/policy", status_code=204)
def remove_pool_policy(pool: Pool, caller: DeviceAdmin, services: ServicesDep, expected: Expected = None) -> None:
    """Take a pool's policy away."""
    with services.database.write(caller.actor) as unit:
        service.remove_pool(unit, caller.workspace_id, pool, expected, services.clock.now())
