"""Bodies of the calls about releases of the agent."""

from datetime import datetime

from pydantic import BaseModel, Field

from pock_server.http.fields import Digest, Id
from pock_server.http.pages import PageOut
from pock_server.trust.schemas import RootSigned


class ReleaseDocument(RootSigned):
    """What a release consists of, signed by root keys over `pock-agent-release\\n` and the payload's bytes."""


class AgentReleaseIn(BaseModel):
    """A release to keep; its files have been uploaded."""

    document: ReleaseDocument = Field(description="As `pock-server agent-release sign` writes it.")
    notes: str = Field(default="", max_length=2000, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]*$", description="For people.")


class AgentFileOut(BaseModel):
    """The agent as one file."""

    sha256: Digest
    size: int


class AgentReleaseOut(BaseModel):
    """A release of the agent."""

    id: Id
    version: str
    files: dict[str, AgentFileOut] = Field(description="By platform, such as `linux-aarch64`.")
    issued_at: datetime
    expires_at: datetime = Field(description="From then on no agent takes it any more; sign it anew.")
    downgrade: bool = Field(description="Whether agents of a newer version may go back to it.")
    revert: bool = Field(description="Whether a rollout of it can be taken back, to the version before.")
    notes: str
    document: ReleaseDocument
    created_at: datetime


class AgentReleasePage(PageOut[AgentReleaseOut]):
    """Releases, newest first."""
