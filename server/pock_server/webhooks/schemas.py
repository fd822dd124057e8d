"""Bodies of the webhook calls."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from pock_server.http.fields import Id, Name
from pock_server.http.pages import PageOut
from pock_server.webhooks.addresses import MAX_CHARACTERS
from pock_server.webhooks.tables import DeliveryState, Event


def _sorted(events: list[Event]) -> list[Event]:
    return sorted(set(events))


Url = Annotated[str, StringConstraints(min_length=1, max_length=MAX_CHARACTERS)]
Events = Annotated[list[Event], Field(min_length=1, max_length=50), AfterValidator(_sorted)]


class WebhookIn(BaseModel):
    """An address that is to be told."""

    url: Url = Field(description="https; a public address, unless the operator allows its network.")
    events: Events
    description: Name | None = None


class WebhookChange(BaseModel):
    """What is to change about a webhook; what is left out stays."""

    url: Url | None = None
    events: Events | None = None
    description: Name | None = None
    enabled: bool | None = None


class WebhookOut(BaseModel):
    """An address that is told."""

    id: Id
    url: str = Field(description="Without its query.")
    events: list[Event]
    description: str | None
    enabled: bool
    failing_since: datetime | None = Field(description="When the failures began; null if the last message arrived.")
    disabled_reason: str | None
    created_at: datetime


class WebhookCreated(WebhookOut):
    """A webhook just made; this is the only time its secret is shown."""

    secret: str = Field(description="`whsec_…`; with it the receiver verifies signatures (standardwebhooks.com).")


class WebhookPage(PageOut[WebhookOut]):
    """Webhooks, newest first."""


class DeliveryOut(BaseModel):
    """One event for one webhook."""

    id: Id
    webhook_id: Id
    event: str
    state: DeliveryState
    attempts: int
    next_at: datetime | None = Field(description="Of the next try; null when it is over.")
    status: int | None = Field(description="Of the last answer.")
    problem: str | None = Field(description="Of the last try.")
    payload: dict[str, Any]
    created_at: datetime
    finished_at: datetime | None


class DeliveryPage(PageOut[DeliveryOut]):
    """Deliveries, newest first."""
