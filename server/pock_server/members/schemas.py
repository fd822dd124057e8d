"""Bodies of the calls about members."""

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field, StringConstraints

from pock_server.auth.roles import Role
from pock_server.http.fields import Id, Name
from pock_server.http.pages import PageOut

Email = Annotated[
    str, StringConstraints(pattern=r"^[^@\s\x00-\x1f\x7f]+@[^@\s\x00-\x1f\x7f]+$", min_length=3, max_length=254)
]


class MemberIn(BaseModel):
    """A member to add."""

    name: Name = Field(description="Of a person or script; unique in the workspace.")
    email: Email | None = None
    role: Role


class MemberChange(BaseModel):
    """What is to change about a member; what is left out stays."""

    name: Name | None = None
    email: Email | None = None
    role: Role | None = None
    disabled: bool | None = Field(default=None, description="A disabled member's keys and sessions open nothing.")


class MemberOut(BaseModel):
    """A member."""

    id: Id
    name: str
    email: str | None
    role: Role
    created_at: datetime
    disabled_at: datetime | None


class MemberPage(PageOut[MemberOut]):
    """Members, newest first."""
