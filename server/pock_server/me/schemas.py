"""Who is asking."""

from datetime import datetime

from pydantic import BaseModel, Field

from pock_server.auth.schemas import Scope
from pock_server.http.fields import Id
from pock_server.members.schemas import MemberOut


class NamedOut(BaseModel):
    """Something with a name."""

    id: Id
    name: str


class MeOut(BaseModel):
    """Who the caller is and what it may do now."""

    name: str = Field(description="Of the member, or of the key if it has none.")
    member: MemberOut | None
    workspace: NamedOut
    key: NamedOut
    session_id: Id | None = Field(description="Of the browser, if the request came with a session.")
    scopes: list[Scope] = Field(description="Of the key, as far as the member's role has them now.")
    expires_at: datetime = Field(description="When this key or session ends at the latest.")
