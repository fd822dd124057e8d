"""Bodies of the upload calls."""

from pydantic import BaseModel, Field

from pock_server.http.fields import Digest, Id


class UploadIn(BaseModel):
    """A file that is about to be sent."""

    digest: Digest
    size: int = Field(ge=1, le=2**53, description="Bytes.")


class UploadOut(BaseModel):
    """Where an upload stands."""

    id: Id
    offset: int = Field(description="Bytes received; send the rest from here.")
    size: int
    complete: bool = Field(description="True when the blob exists; nothing needs to be sent.")
