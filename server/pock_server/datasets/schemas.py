"""Bodies of the dataset calls."""

from datetime import datetime

from pydantic import BaseModel, Field

from pock_server.http.fields import Digest, Id, Name
from pock_server.http.pages import PageOut
from pock_server.names.schemas import Tags, Version


class DatasetIn(BaseModel):
    """A dataset whose file was uploaded."""

    name: Name
    digest: Digest


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
    created_at: datetime


class DatasetPage(PageOut[DatasetOut]):
    """Datasets, newest first."""
