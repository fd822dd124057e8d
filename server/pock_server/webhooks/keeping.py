"""Makes, changes, shows and forgets webhooks."""

import json
from datetime import datetime

from pock_server.audit.service import Action, changed, gone, made, record
from pock_server.clock import new_id
from pock_server.db.unit import Unit
from pock_server.http.guard import networks
from pock_server.http.problems import Failure, Problem
from pock_server.settings import Settings
from pock_server.trust.wrapping import WrappingKey
from pock_server.webhooks.addresses import Forbidden, read
from pock_server.webhooks.repository import Webhooks
from pock_server.webhooks.schemas import DeliveryOut, WebhookChange, WebhookCreated, WebhookIn, WebhookOut
from pock_server.webhooks.secrets import wrap
from pock_server.webhooks.signing import new_secret, shown
from pock_server.webhooks.tables import DeliveryRecord, WebhookRecord


def create_webhook(
    unit: Unit, workspace_id: str, order: WebhookIn, settings: Settings, wrapping: WrappingKey, now: datetime
) -> WebhookCreated:
    """Have an address told from now on; the answer holds the only copy of its secret that is shown."""
    _check(order.url, settings)
    row_id, secret = new_id(now), new_secret()
    row = WebhookRecord(
        id=row_id,
        workspace_id=workspace_id,
        created_at=now,
        url=order.url,
        events=[str(event) for event in order.events],
        description=order.description,
        wrapped_secret=wrap(wrapping, row_id, secret),
        enabled=True,
    )
    Webhooks(unit.session, workspace_id).add(row)
    record(unit, Action.WEBHOOK_CREATE, row, _name(row), now, made(url=_without_query(row.url), events=row.events))
    return WebhookCreated(**show(row).model_dump(), secret=shown(secret))


def _check(url: str, settings: Settings) -> None:
    try:
        read(url, networks(settings.webhook_networks))
    except Forbidden as error:
        raise Problem(Failure.INVALID, f"body.url: {error}") from None


def change_webhook(
    unit: Unit, workspace_id: str, row_id: str, order: WebhookChange, settings: Settings, now: datetime
) -> WebhookRecord:
    """Change what `order` names. One that is enabled again begins anew: its failures are forgotten."""
    row = Webhooks(unit.session, workspace_id).require(row_id, lock=True)
    before = _told(row)
    if order.url is not None:
        _check(order.url, settings)
        row.url = order.url
    if order.events is not None:
        row.events = [str(event) for event in order.events]
    row.description = order.description if order.description is not None else row.description
    if order.enabled is not None and order.enabled != row.enabled:
        row.enabled, row.failing_since = order.enabled, None
        row.disabled_reason = None if order.enabled else "Somebody disabled it."
    changes = changed(before, _told(row))
    if changes:
        record(unit, Action.WEBHOOK_CHANGE, row, _name(row), now, changes)
    return row


def delete_webhook(unit: Unit, workspace_id: str, row_id: str, now: datetime) -> None:
    """Forget a webhook with its deliveries; what is not sent yet is not sent."""
    webhooks = Webhooks(unit.session, workspace_id)
    row = webhooks.require(row_id, lock=True)
    record(unit, Action.WEBHOOK_DELETE, row, _name(row), now, gone(url=_without_query(row.url), events=row.events))
    webhooks.forget_deliveries(row)
    unit.session.delete(row)


def _told(row: WebhookRecord) -> dict[str, object]:
    """What the audit log says of it."""
    same = ("events", "description", "enabled")
    return {"url": _without_query(row.url), **{name: getattr(row, name) for name in same}}


def _name(row: WebhookRecord) -> str:
    return (row.description or _without_query(row.url))[:200]


def _without_query(url: str) -> str:
    """Queries have secrets of the receiver."""
    return url.partition("?")[0]


def show(row: WebhookRecord) -> WebhookOut:
    """The webhook as the API shows it."""
    return WebhookOut.model_validate(
        {
            "id": row.id,
            "url": _without_query(row.url),
            "events": row.events,
            "description": row.description,
            "enabled": row.enabled,
            "failing_since": row.failing_since,
            "disabled_reason": row.disabled_reason,
            "created_at": row.created_at,
        }
    )


def show_delivery(row: DeliveryRecord) -> DeliveryOut:
    """The delivery as the API shows it."""
    same = DeliveryOut.model_fields.keys() - {"payload"}
    return DeliveryOut(payload=json.loads(row.payload), **{name: getattr(row, name) for name in same})
