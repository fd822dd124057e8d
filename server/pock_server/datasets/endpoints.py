"""Datasets over HTTP."""

from fastapi import APIRouter, Response

from pock_server.blobs.repository import Blobs
from pock_server.datasets import service
from pock_server.datasets.repository import Datasets
from pock_server.datasets.schemas import DatasetIn, DatasetOut, DatasetPage
from pock_server.dependencies import ModelWriter, Reader, ServicesDep
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS
from pock_server.idempotency.header import Once
from pock_server.names.schemas import NameGlob, Ref, Tag
from pock_server.names.service import tag, untag
from pock_server.quotas.service import Quota, check

router = APIRouter(prefix="/datasets", tags=["datasets"], responses=PROBLEMS)


@router.post(
    "",
    status_code=201,
    responses={200: {"model": DatasetOut, "description": "The name has a version with the same file."}},
)
def create_dataset(
    body: DatasetIn, response: Response, caller: ModelWriter, services: ServicesDep, once: Once
) -> DatasetOut:
    """Register an uploaded safetensors file as the next version of a dataset."""
    with services.database.read() as session:
        blob = Blobs(session, caller.workspace_id).require(body.digest)
    entries = service.read_entries(services.blobs, blob)  # outside of any transaction: a long header takes a while
    with services.database.write(caller.actor) as unit:
        pushed = service.create_dataset(unit, caller.workspace_id, body.name, blob, entries, services.clock.now())
        if pushed.created:
            check(unit, services.settings, caller.workspace_id, services.clock.now(), Quota.DATASETS)
        response.status_code = 201 if pushed.created else 200
        (shown,) = service.show(Datasets(unit.session, caller.workspace_id), [pushed.row])
        return once(unit, shown, response.status_code)


@router.get("")
def list_datasets(
    caller: Reader, services: ServicesDep, page: PageQuery, ref: Ref = None, name: NameGlob = None
) -> DatasetPage:
    """List datasets."""
    with services.database.read() as session:
        datasets = Datasets(session, caller.workspace_id)
        found = datasets.page(page, *datasets.asked(ref, name))
        return DatasetPage(items=service.show(datasets, found.rows), next_cursor=found.next_cursor)


@router.get("/{dataset_id}")
def get_dataset(dataset_id: Id, caller: Reader, services: ServicesDep) -> DatasetOut:
    """One dataset."""
    with services.database.read() as session:
        datasets = Datasets(session, caller.workspace_id)
        (shown,) = service.show(datasets, [datasets.require(dataset_id)])
        return shown


@router.put("/{dataset_id}/tags/{tag_name}")
def tag_dataset(dataset_id: Id, tag_name: Tag, caller: ModelWriter, services: ServicesDep) -> DatasetOut:
    """Have a tag name this version of the dataset, whichever it named before."""
    with services.database.write(caller.actor) as unit:
        datasets = Datasets(unit.session, caller.workspace_id)
        row = tag(unit, datasets, dataset_id, tag_name, services.clock.now())
        (shown,) = service.show(datasets, [row])
        return shown


@router.delete("/{dataset_id}/tags/{tag_name}", status_code=204)
def untag_dataset(dataset_id: Id, tag_name: Tag, caller: ModelWriter, services: ServicesDep) -> None:
    """Take a tag away from this version of the dataset."""
    with services.database.write(caller.actor) as unit:
        untag(unit, Datasets(unit.session, caller.workspace_id), dataset_id, tag_name, services.clock.now())


@router.delete("/{dataset_id}", status_code=204)
def delete_dataset(dataset_id: Id, caller: ModelWriter, services: ServicesDep) -> None:
    """Forget a dataset without runs."""
    with services.database.write(caller.actor) as unit:
        service.delete_dataset(unit, caller.workspace_id, dataset_id, services.clock.now())
