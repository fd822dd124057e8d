"""What the audit log shows."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from pock_server.actor import ActorKind
from pock_server.http.fields import Id
from pock_server.http.pages import PageOut


class AuditActor(BaseModel):
    """Who changed something."""

    kind: ActorKind
    name: str = Field(description="Of the member, else of the key, the device or the shell's user.")
    member_id: Id | None
    key_id: Id | None
    session_id: Id | None
    device_id: Id | None


class AuditObject(BaseModel):
    """What was changed; it may be gone by now."""

    kind: str
    id: str
    name: str


class AuditChange(BaseModel):
    """A field before and after."""

    before: Any = None
    after: Any = None


class AuditEntry(BaseModel):
    """One change."""

    id: Id
    at: datetime
    workspace_id: Id | None = Field(description="Null for a change of the whole service.")
    action: str = Field(description="`KIND.VERB`, such as `device.revoke`.")
    object: AuditObject
    changes: dict[str, AuditChange] = Field(description="The important fields, never a secret.")
    actor: AuditActor
    address: str | None = Field(description="Where the request came from, as far as trusted proxies say.")
    user_agent: str | None
    request_id: str | None


class AuditPage(PageOut[AuditEntry]):
    """Entries, newest first."""
