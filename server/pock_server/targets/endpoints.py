"""Targets over HTTP."""

from fastapi import APIRouter

from pock_server.dependencies import Reader, ServicesDep
from pock_server.http.problems import PROBLEMS
from pock_server.targets.schemas import TargetList, TargetOut

router = APIRouter(prefix="/targets", tags=["targets"], responses=PROBLEMS)


@router.get("")
def list_targets(_caller: Reader, services: ServicesDep) -> TargetList:
    """List the device types that models can be built for."""
    return TargetList(items=[TargetOut(**target) for target in services.compiler.load().targets])
