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
    created_at: datetime


class DatasetPage(PageOut[DatasetOut]):
    """Datasets, newest first."""
