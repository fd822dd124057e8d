"""Webhooks over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Query

from pock_server.dependencies import DeviceAdmin, Reader, ServicesDep
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS
from pock_server.quotas.service import Quota, check
from pock_server.webhooks import keeping
from pock_server.webhooks.repository import Deliveries, Webhooks
from pock_server.webhooks.schemas import (
    DeliveryPage,
    WebhookChange,
    WebhookCreated,
    WebhookIn,
    WebhookOut,
    WebhookPage,
)
from pock_server.webhooks.tables import DeliveryRecord, DeliveryState

router = APIRouter(prefix="/webhooks", tags=["webhooks"], responses=PROBLEMS)


@router.post("", status_code=201)
def create_webhook(body: WebhookIn, caller: DeviceAdmin, services: ServicesDep) -> WebhookCreated:
    """Have an address told of events; the secret is in this answer and nowhere else."""
    now = services.clock.now()
    with services.database.write(caller.actor) as unit:
        made = keeping.create_webhook(unit, caller.workspace_id, body, services.settings, services.keys.wrapping, now)
        check(unit, services.settings, caller.workspace_id, now, Quota.WEBHOOKS)
        return made


@router.get("")
def list_webhooks(caller: Reader, services: ServicesDep, page: PageQuery) -> WebhookPage:
    """List webhooks."""
    with services.database.read() as session:
        found = Webhooks(session, caller.workspace_id).page(page)
        return WebhookPage(items=[keeping.show(row) for row in found.rows], next_cursor=found.next_cursor)


@router.get("/{webhook_id}")
def get_webhook(webhook_id: Id, caller: Reader, services: ServicesDep) -> WebhookOut:
    """One webhook."""
    with services.database.read() as session:
        return keeping.show(Webhooks(session, caller.workspace_id).require(webhook_id))


@router.patch("/{webhook_id}")
def change_webhook(webhook_id: Id, body: WebhookChange, caller: DeviceAdmin, services: ServicesDep) -> WebhookOut:
    """Change a webhook; one that was disabled can be enabled again."""
    with services.database.write(caller.actor) as unit:
        row = keeping.change_webhook(
            unit, caller.workspace_id, webhook_id, body, services.settings, services.clock.now()
        )
        return keeping.show(row)


@router.delete("/{webhook_id}", status_code=204)
def delete_webhook(webhook_id: Id, caller: DeviceAdmin, services: ServicesDep) -> None:
    """Forget a webhook; what is not sent yet is not sent."""
    with services.database.write(caller.actor) as unit:
        keeping.delete_webhook(unit, caller.workspace_id, webhook_id, services.clock.now())


@router.get("/{webhook_id}/deliveries")
def list_webhook_deliveries(
    webhook_id: Id,
    caller: Reader,
    services: ServicesDep,
    page: PageQuery,
    state: Annotated[DeliveryState | None, Query()] = None,
) -> DeliveryPage:
    """What was, or is to be, sent to a webhook; what ended 30 days ago is forgotten."""
    with services.database.read() as session:
        Webhooks(session, caller.workspace_id).require(webhook_id)
        filters = [DeliveryRecord.webhook_id == webhook_id]
        if state is not None:
            filters.append(DeliveryRecord.state == state)
        found = Deliveries(session, caller.workspace_id).page(page, *filters)
        shown = [keeping.show_delivery(row) for row in found.rows]
        return DeliveryPage(items=shown, next_cursor=found.next_cursor)
