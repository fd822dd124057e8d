"""Bodies of the model calls."""

from datetime import datetime

from pydantic import BaseModel, Field

from pock_server.http.fields import Digest, FileName, Id, Name
from pock_server.http.pages import PageOut
from pock_server.names.schemas import Tags, Version


class ModelIn(BaseModel):
    """A model whose files were uploaded."""

    name: Name
    digest: Digest
    external: dict[FileName, Digest] = Field(
        default_factory=dict, max_length=1000, description="External data files, as the ONNX file names them."
    )


class ModelOut(BaseModel):
    """A model."""

    id: Id
    name: str
    version: Version
    tags: Tags
    digest: Digest
    size: int = Field(description="Bytes of the ONNX file.")
    external: dict[str, Digest]
    builds: int = Field(description="Builds of it, in whatever state.")
    used_at: datetime | None = Field(description="When the last of these builds was asked for.")
    created_at: datetime


class ModelPage(PageOut[ModelOut]):
    """Models, newest first."""
