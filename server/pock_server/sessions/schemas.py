"""Bodies of the calls about browser sessions."""

from datetime import datetime

from pydantic import BaseModel, Field

from pock_server.http.fields import Id
from pock_server.http.pages import PageOut


class BrowserSessionOut(BaseModel):
    """A signed-in browser."""

    id: Id
    key_id: Id
    name: str = Field(description="Of the member, or of the key if it has none.")
    address: str | None = Field(description="Where it signed in from.")
    user_agent: str | None
    created_at: datetime
    last_used_at: datetime
    expires_at: datetime


class BrowserSessionPage(PageOut[BrowserSessionOut]):
    """Sessions, newest first."""
