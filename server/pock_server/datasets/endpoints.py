"""Datasets over HTTP."""

from fastapi import APIRouter

from pock_server.datasets.repository import Datasets
from pock_server.datasets.schemas import DatasetIn, DatasetOut, DatasetPage
from pock_server.datasets.service import create_dataset as create
from pock_server.datasets.service import describe
from pock_server.dependencies import ModelWriter, Reader, ServicesDep
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS
from pock_server.idempotency.header import IDEMPOTENT

router = APIRouter(prefix="/datasets", tags=["datasets"], responses=PROBLEMS)


@router.post("", status_code=201, dependencies=[IDEMPOTENT])
def create_dataset(body: DatasetIn, caller: ModelWriter, services: ServicesDep) -> DatasetOut:
    """Register an uploaded safetensors file as a dataset."""
    return describe(create(services.database, services.blobs, caller.workspace_id, body, services.clock.now()))


@router.get("")
def list_datasets(caller: Reader, services: ServicesDep, page: PageQuery) -> DatasetPage:
    """List datasets."""
    with services.database.read() as session:
        found = Datasets(session, caller.workspace_id).page(page)
        return DatasetPage(items=[describe(row) for row in found.rows], next_cursor=found.next_cursor)


@router.get("/{dataset_id}")
def get_dataset(dataset_id: Id, caller: Reader, services: ServicesDep) -> DatasetOut:
    """One dataset."""
    with services.database.read() as session:
        return describe(Datasets(session, caller.workspace_id).require(dataset_id))
