"""Bodies of the API key calls."""

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, Field

from pock_server.http.fields import Id, Name
from pock_server.http.pages import PageOut

MAX_TTL_DAYS = 90


class Scope(StrEnum):
    """What an API key may do."""

    READ = "read"
    MODELS_WRITE = "models:write"
    BUILDS_WRITE = "builds:write"
    RUNS_WRITE = "runs:write"
    DEVICES_ADMIN = "devices:admin"
    KEYS_ADMIN = "keys:admin"
    AUDIT_READ = "audit:read"


class ApiKeyIn(BaseModel):
    """A key to make."""

    name: Name
    member_id: Id | None = Field(default=None, description="Whose key it is; a key of nobody stands for itself.")
    scopes: list[Scope] = Field(
        min_length=1, max_length=len(Scope), description="A member's key can do what its member's role can, at most."
    )
    ttl_days: int = Field(default=30, ge=1, le=MAX_TTL_DAYS)


class ApiKeyOut(BaseModel):
    """A key without its secret."""

    id: Id
    name: str
    scopes: list[Scope]
    member_id: Id | None
    member_name: str | None
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None


class ApiKeyCreated(ApiKeyOut):
    """A key just made; this is the only time its secret is shown."""

    key: str = Field(description="`pk_<id>_<secret>`; shown once.")


class ApiKeyPage(PageOut[ApiKeyOut]):
    """Keys, newest first."""
