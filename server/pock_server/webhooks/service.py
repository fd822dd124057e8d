"""Announces what happens, in the transaction in which it happens: it is told if and only if it did."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pock_server.clock import new_id
from pock_server.db.unit import Unit
from pock_server.http.fields import canonical_json
from pock_server.webhooks.repository import Deliveries, Webhooks
from pock_server.webhooks.tables import DeliveryRecord, DeliveryState, Event

WEBHOOKS_TOPIC = "webhooks"
"""Rings when there is something to send."""


def announce(unit: Unit, workspace_id: str, event: Event, data: Mapping[str, Any], now: datetime) -> None:
    """Have every webhook of the workspace that wants to know be told of the event. `data`: JSON values, a few KB."""
    listeners = Webhooks(unit.session, workspace_id).listeners(event)
    if not listeners:
        return
    payload = canonical_json({"type": str(event), "timestamp": now.isoformat(), "data": dict(data)})
    deliveries = Deliveries(unit.session, workspace_id)
    for listener in listeners:
        deliveries.add(
            DeliveryRecord(
                id=new_id(now),
                workspace_id=workspace_id,
                created_at=now,
                webhook_id=listener.id,
                event=event,
                payload=payload,
                state=DeliveryState.PENDING,
                attempts=0,
                next_at=now,
            )
        )
    unit.announce(WEBHOOKS_TOPIC)
