"""The release document: which file is which version of the agent, for what, until when; signed by root keys.

The service never signs one: whoever holds its online key could then replace the agent on every device. Knows no
database; the agent has these rules in a program of its own (`pock_agent/update/release.py`).
"""

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from pock_server.agent_releases.schemas import ReleaseDocument
from pock_server.http.fields import Digest
from pock_server.trust.documents import BadDocument, Trust, demand, payload_of

TYPE: Final = "pock-agent-release"
MAX_FILE_BYTES = 32 << 20
MAX_PLATFORMS = 8
_TIME = "%Y-%m-%dT%H:%M:%SZ"

Version = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,5})(\.(0|[1-9][0-9]{0,5})){2}$")]
Platform = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]{1,20}-[a-z0-9_]{1,20}$")]
Moment = Annotated[str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class AgentFile(_Strict):
    """The agent as one file, by its SHA-256 and size in bytes."""

    sha256: Digest
    size: int = Field(ge=1, le=MAX_FILE_BYTES)


class Release(_Strict):
    """What a document says. `downgrade`: an agent may go back to it from a newer version. `revert`: the service may
    have an agent that took it return to the version before."""

    type: Literal["pock-agent-release"] = TYPE
    format: Literal[1] = 1
    version: Version
    issued_at: Moment
    expires_at: Moment
    files: dict[Platform, AgentFile] = Field(min_length=1, max_length=MAX_PLATFORMS)
    downgrade: bool
    revert: bool

    def text(self) -> bytes:
        """The one JSON text that is signed."""
        return json.dumps(self.model_dump(), sort_keys=True, separators=(",", ":")).encode()

    def unsigned(self) -> ReleaseDocument:
        """The document without signatures."""
        return ReleaseDocument(payload=base64.b64encode(self.text()).decode(), signatures=[])

    @property
    def issued(self) -> datetime:
        """When it was made."""
        return moment(self.issued_at)

    @property
    def expires(self) -> datetime:
        """From when on no agent takes it any more."""
        return moment(self.expires_at)

    def by_digest(self) -> Mapping[str, int]:
        """The files' sizes by their digests; several platforms may share one."""
        return {file.sha256: file.size for file in self.files.values()}


def moment(text: str) -> datetime:
    """The time in a document; raises BadDocument."""
    try:
        return datetime.strptime(text, _TIME).replace(tzinfo=UTC)
    except ValueError:
        raise BadDocument(f"{text} is no time") from None


def time_text(at: datetime) -> str:
    """The time as documents have it."""
    return at.astimezone(UTC).strftime(_TIME)


def read(document: ReleaseDocument) -> Release:
    """What the document says, whoever signed it; raises BadDocument."""
    payload = payload_of(document)
    try:
        release = Release.model_validate_json(payload)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "it"
        raise BadDocument(f"this is no release document: {where}: {first['msg']}") from None
    if release.text() != payload:
        raise BadDocument("the payload is not in its one form: sorted keys, no spaces")
    if release.expires <= release.issued:
        raise BadDocument("the release expires before it is issued")
    return release


def verified(document: ReleaseDocument, trust: Trust, now: datetime) -> Release:
    """What the document says, once enough root keys of the trust document vouch for it and it has not expired; raises
    BadDocument."""
    release = read(document)
    demand(document, trust.root_keys, trust.threshold, f"trust document {trust.version}", TYPE)
    if release.expires <= now:
        raise BadDocument(f"the release expired at {release.expires_at}; sign it anew")
    return release
