# Generated from pock_client/asynchronous by `python -m client.generate`.
"""Webhooks: addresses that are told what happens in the workspace."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET

from pock_client.calls import part, sending
from pock_client.pausing import Stream
from pock_client.schema import (
    Delivery,
    DeliveryPage,
    Event,
    Webhook,
    WebhookChange,
    WebhookCreated,
    WebhookIn,
    WebhookPage,
)
from pock_client.synchronous.named import Named


class Webhooks(Named[Webhook]):
    """`client.webhooks`."""

    words = "webhook"
    path = "/webhooks"
    kind = Webhook
    page = WebhookPage

    def fits(self, one: Webhook, name: str) -> bool:
        """A webhook's name is its description, or its address."""
        return name in (one.description, one.url)

    def create(self, url: str, events: Iterable[str], description: str | None = None) -> WebhookCreated:
        """Have an address told of these events; its secret is shown this once."""
        body = WebhookIn(url=url, events=[Event(one) for one in events], description=description or UNSET)
        return self._transport.json(sending("POST", self.path, body), WebhookCreated)

    def change(
        self,
        ident: str,
        *,
        url: str | None = None,
        events: Iterable[str] | None = None,
        description: str | None = None,
        enabled: bool | None = None,
    ) -> Webhook:
        """Change what is given; the rest stays."""
        body = WebhookChange(
            url=url or UNSET,
            events=UNSET if events is None else [Event(one) for one in events],
            description=description or UNSET,
            enabled=UNSET if enabled is None else enabled,
        )
        return self._transport.json(sending("PATCH", f"{self.path}/{part(ident)}", body), Webhook)

    def deliveries(self, ident: str, state: str | None = None) -> Stream[Delivery]:
        """What was, or is to be, sent, newest first."""
        return self._transport.pages(f"{self.path}/{part(ident)}/deliveries", DeliveryPage, {"state": state})
