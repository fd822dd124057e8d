"""Bodies of the dataset calls."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator

from pock_server.http.fields import Digest, Id, Name
from pock_server.http.pages import PageOut
from pock_server.names.schemas import Tags, Version


class DatasetIn(BaseModel):
    """A dataset whose file was uploaded."""

    name: Name
    digest: Digest


MAX_LOCAL = 100
"""Datasets that stay on one device, and tensors of each."""
_COUNT = Field(ge=1, le=2**53)


class LocalTensorIn(BaseModel):
    """One tensor of a dataset that stays on a device."""

    name: Name
    dtype: Literal[
        "bool", "u8", "i8", "f8_e5m2", "f8_e4m3", "i16", "u16", "f16", "bf16", "i32", "u32", "f32", "f64", "i64", "u64"
    ]
    shape: list[Annotated[int, Field(ge=0, le=2**53)]] = Field(min_length=1, max_length=16)


class LocalDatasetIn(BaseModel):
    """A dataset that stays on a device: all that the service gets to know of it."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.\-]*$", max_length=105)]
    digest: Digest
    size: Annotated[int, _COUNT]
    samples: Annotated[int, _COUNT]
    tensors: list[LocalTensorIn] = Field(min_length=1, max_length=MAX_LOCAL)

    @model_validator(mode="after")
    def _counts_samples(self) -> "LocalDatasetIn":
        if any(tensor.shape[0] != self.samples for tensor in self.tensors):
            raise ValueError("tensors have another number of samples")
        return self


class LocalDataIn(BaseModel):
    """All that stays on a device, in place of what was told before."""

    datasets: list[LocalDatasetIn] = Field(max_length=MAX_LOCAL)
    digest: str = Field(pattern=r"^([0-9a-f]{64})?$", max_length=64, description="As heartbeats tell it.")


class TensorOut(BaseModel):
    """One tensor of a dataset."""

    name: str
    dtype: str = Field(description="`f32 f16 bf16 f64 i8 i16 i32 i64 u8 ... bool`")
    shape: list[int] = Field(description="The first dimension counts samples.")


class DatasetOut(BaseModel):
    """A dataset."""

    id: Id
    name: str
    version: Version
    tags: Tags
    digest: Digest
    size: int = Field(description="Bytes.")
    samples: int
    tensors: list[TensorOut]
    device_id: Id | None = Field(description="The device that it stays on; the service then has none of its bytes.")
    gone_at: datetime | None = Field(description="When that device no longer had it.")
    runs: int = Field(description="Runs on it, in whatever state.")
    used_at: datetime | None = Field(description="When the last of these runs was asked for.")
    created_at: datetime


class DatasetPage(PageOut[DatasetOut]):
    """Datasets, newest first."""


class PreviewOut(BaseModel):
    """Some samples of one tensor."""

    tensor: str
    dtype: str
    shape: list[int]
    offset: int = Field(description="The first sample that is shown.")
    values: int = Field(description="Numbers of a sample; a sample that lists fewer is cut.")
    samples: list[list[int | float | None]] = Field(
        description="Each sample's numbers, the last dimension running fastest; null for what is not finite."
    )


class TensorStatisticsOut(BaseModel):
    """The numbers of one tensor; least, largest and mean of those that are finite."""

    tensor: str
    counted: int = Field(description="Numbers that were looked at; fewer than `of` in large tensors, evenly spread.")
    of: int
    min: float | None
    max: float | None
    mean: float | None
    nan: int
    infinite: int


class StatisticsOut(BaseModel):
    """The numbers of each tensor that can be shown."""

    tensors: list[TensorStatisticsOut]


class ClassOut(BaseModel):
    """How often one label occurs."""

    label: int
    count: int


class LabelsOut(BaseModel):
    """How often each label occurs."""

    tensor: str
    counted: int = Field(description="Labels that were looked at; fewer than `of` in large tensors, evenly spread.")
    of: int
    distinct: int | None = Field(description="How many differ; null where they are too many to be classes.")
    classes: list[ClassOut] = Field(description="The 1,000 most frequent at most, in the order of their labels.")


class ModelFitOut(BaseModel):
    """Whether builds of one model could run on a dataset."""

    model_id: Id
    model_name: str
    model_version: Version
    build_id: Id = Field(description="The newest build with an artifact: its inputs decide.")
    fits: bool
    reason: str = Field(description="What does not fit; empty where it does.")


class FitsOut(BaseModel):
    """The models that were built last, at most 100, and whether the dataset fits them."""

    items: list[ModelFitOut]
