"""Datasets over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from pock_server.auth.service import Caller
from pock_server.blobs.repository import Blobs
from pock_server.blobs.tables import BlobRecord
from pock_server.datasets import looking, service
from pock_server.datasets.fits import fits
from pock_server.datasets.repository import Datasets
from pock_server.datasets.schemas import (
    DatasetIn,
    DatasetOut,
    DatasetPage,
    FitsOut,
    LabelsOut,
    PreviewOut,
    StatisticsOut,
)
from pock_server.dependencies import ModelWriter, Reader, ServicesDep
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS, Failure, Problem
from pock_server.idempotency.header import Once
from pock_server.names.schemas import NameGlob, Ref, Sort, Sorting, Tag
from pock_server.names.service import tag, untag
from pock_server.quotas.service import Quota, check
from pock_server.services import Services

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
    caller: Reader,
    services: ServicesDep,
    page: PageQuery,
    ref: Ref = None,
    name: NameGlob = None,
    sort: Sorting = Sort.NEWEST,
) -> DatasetPage:
    """List datasets."""
    with services.database.read() as session:
        datasets = Datasets(session, caller.workspace_id)
        found = datasets.sorted_page(page, sort, *datasets.asked(ref, name))
        return DatasetPage(items=service.show(datasets, found.rows), next_cursor=found.next_cursor)


@router.get("/{dataset_id}")
def get_dataset(dataset_id: Id, caller: Reader, services: ServicesDep) -> DatasetOut:
    """One dataset."""
    with services.database.read() as session:
        datasets = Datasets(session, caller.workspace_id)
        (shown,) = service.show(datasets, [datasets.require(dataset_id)])
        return shown


TensorName = Annotated[str, Query(max_length=500, description="The name of one of its tensors.")]


@router.get("/{dataset_id}/preview")
def preview_dataset(
    dataset_id: Id,
    caller: Reader,
    services: ServicesDep,
    tensor: TensorName,
    offset: Annotated[int, Query(ge=0, le=2**53, description="The first sample.")] = 0,
    count: Annotated[int, Query(ge=1, le=64, description="Samples, as far as there is room for them.")] = 8,
) -> PreviewOut:
    """Look at some samples of one tensor."""
    return looking.preview(services.blobs, _held(services, caller, dataset_id), tensor, offset, count)


@router.get("/{dataset_id}/statistics")
def dataset_statistics(dataset_id: Id, caller: Reader, services: ServicesDep) -> StatisticsOut:
    """Look at the numbers of each tensor."""
    return looking.statistics(services.blobs, _held(services, caller, dataset_id))


@router.get("/{dataset_id}/labels")
def dataset_labels(dataset_id: Id, caller: Reader, services: ServicesDep, tensor: TensorName = "labels") -> LabelsOut:
    """Count how often each label occurs."""
    return looking.labels(services.blobs, _held(services, caller, dataset_id), tensor)


def _held(services: Services, caller: Caller, dataset_id: str) -> BlobRecord:
    """The bytes of a dataset; a 409 `Problem` if they stay on a device."""
    with services.database.read() as session:
        row = Datasets(session, caller.workspace_id).require(dataset_id)
        if row.device_id is not None:
            detail = f"Dataset {row.name} stays on its device: the service has none of its samples to look at."
            raise Problem(Failure.STATE_CONFLICT, detail)
        return Blobs(session, caller.workspace_id).require(row.digest)


@router.get("/{dataset_id}/fits")
def dataset_fits(dataset_id: Id, caller: Reader, services: ServicesDep) -> FitsOut:
    """Compare a dataset with the inputs of the models that were built."""
    with services.database.read() as session:
        return fits(session, Datasets(session, caller.workspace_id).require(dataset_id))


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
