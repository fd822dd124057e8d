"""Datasets over HTTP."""

from fastapi import APIRouter

from pock_server.blobs.repository import Blobs
from pock_server.datasets.repository import Datasets
from pock_server.datasets.schemas import DatasetIn, DatasetOut, DatasetPage
from pock_server.datasets.service import create_dataset as create
from pock_server.datasets.service import delete_dataset as delete
from pock_server.datasets.service import describe, read_entries
from pock_server.dependencies import ModelWriter, Reader, ServicesDep
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS
from pock_server.idempotency.header import Once
from pock_server.quotas.service import Quota, check

router = APIRouter(prefix="/datasets", tags=["datasets"], responses=PROBLEMS)


@router.post("", status_code=201)
def create_dataset(body: DatasetIn, caller: ModelWriter, services: ServicesDep, once: Once) -> DatasetOut:
    """Register an uploaded safetensors file as a dataset."""
    with services.database.read() as session:
        blob = Blobs(session, caller.workspace_id).require(body.digest)
    entries = read_entries(services.blobs, blob)  # outside of any transaction: a long header takes a while
    with services.database.write(caller.actor) as unit:
        row = create(unit, caller.workspace_id, body.name, blob, entries, services.clock.now())
        check(unit, services.settings, caller.workspace_id, services.clock.now(), Quota.DATASETS)
        return once(unit, describe(row), 201)


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


@router.delete("/{dataset_id}", status_code=204)
def delete_dataset(dataset_id: Id, caller: ModelWriter, services: ServicesDep) -> None:
    """Forget a dataset without runs."""
    with services.database.write(caller.actor) as unit:
        delete(unit, caller.workspace_id, dataset_id, services.clock.now())
